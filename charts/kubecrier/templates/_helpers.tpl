{{- define "kubecrier.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kubecrier.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kubecrier.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "kubecrier.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "kubecrier.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kubecrier.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The name of what is outside the release's namespace: one per release, also where names of
namespaces and releases run together, and never cut, which makes two of one. */ -}}
{{- define "kubecrier.globalName" -}}
{{- printf "kubecrier:%s:%s" .Release.Namespace (include "kubecrier.fullname" .) -}}
{{- end -}}

{{- /* Whether the pods work together. */ -}}
{{- define "kubecrier.hasStore" -}}
{{- if or .Values.clusterStore.servers .Values.clusterStore.serversSecret.name -}}true{{- end -}}
{{- end -}}

{{- /* A fleet of its own for each release. The hash tells those apart whose names run together or
are cut; clusters are not told apart. */ -}}
{{- define "kubecrier.fleet" -}}
{{- $hash := printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 8 -}}
{{- $name := printf "%s-%s" .Release.Namespace .Release.Name | replace "." "-" | trunc 31 | trimSuffix "-" -}}
{{- default (printf "%s-%s" $name $hash) .Values.clusterStore.fleet -}}
{{- end -}}

{{- define "kubecrier.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "kubecrier.hasTokens" -}}
{{- if or .Values.auth.tokens.existingSecret .Values.auth.tokens.values -}}true{{- end -}}
{{- end -}}

{{- define "kubecrier.tokenSecret" -}}
{{- default (printf "%s-tokens" (include "kubecrier.fullname" .)) .Values.auth.tokens.existingSecret -}}
{{- end -}}

{{- define "kubecrier.tokenKey" -}}
{{- if .Values.auth.tokens.existingSecret -}}{{- .Values.auth.tokens.key -}}{{- else -}}tokens{{- end -}}
{{- end -}}

{{- /* The claim of the history; none if it is in an emptyDir. */ -}}
{{- define "kubecrier.historyClaim" -}}
{{- if and .Values.history.enabled .Values.history.persistent -}}
{{- default (printf "%s-history" (include "kubecrier.fullname" .)) .Values.history.existingClaim -}}
{{- end -}}
{{- end -}}

{{- define "kubecrier.actsAsCallers" -}}
{{- if eq .Values.auth.clusterIdentity "impersonate" -}}true{{- end -}}
{{- end -}}

{{- define "kubecrier.scheme" -}}
{{- if .Values.tls.secretName -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{- /* The namespaces that the server may read, as JSON; none for all. */ -}}
{{- define "kubecrier.namespaces" -}}
{{- if eq .Values.rbac.scope "namespace" -}}
{{- list .Release.Namespace | toJson -}}
{{- else if eq .Values.rbac.scope "namespaces" -}}
{{- .Values.rbac.namespaces | uniq | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{- /* What the server reads in a namespace, as `kubecrier doctor` checks it. */ -}}
{{- define "kubecrier.rules" -}}
- apiGroups: [""]
  resources: [events, persistentvolumeclaims, pods, resourcequotas, services]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [apps]
  resources: [controllerrevisions, daemonsets, deployments, replicasets, statefulsets]
  verbs: [get, list, watch]
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: [get, list, watch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch]
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [get, list]
{{- end -}}

{{- /* As whom the server may act, and what it may ask about callers, as `kubecrier doctor` prints it. */ -}}
{{- define "kubecrier.callerRules" -}}
{{- $accounts := .Values.auth.serviceAccounts.audience -}}
{{- if include "kubecrier.actsAsCallers" . }}
{{- if eq .Values.rbac.impersonation "plain" }}
- apiGroups: [""]
  resources: [users, groups]
  verbs: [impersonate]
{{- if $accounts }}
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [impersonate]
{{- end }}
{{- else }}
- apiGroups: [authentication.k8s.io]
  resources: [users, groups]
  verbs: ["impersonate:user-info"]
{{- if $accounts }}
- apiGroups: [authentication.k8s.io]
  resources: [serviceaccounts]
  verbs: ["impersonate:serviceaccount"]
{{- end }}
{{- end }}
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- if $accounts }}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end }}
{{- end -}}

{{- /* For which requests the server may act as its callers; plain impersonation is for all. */ -}}
{{- define "kubecrier.callerReads" -}}
{{- if and (include "kubecrier.actsAsCallers" .) (eq .Values.rbac.impersonation "constrained") -}}
- apiGroups: ["*"]
  resources: ["*"]
  verbs: ["impersonate-on:user-info:get", "impersonate-on:user-info:list", "impersonate-on:user-info:watch"]
{{- if .Values.auth.serviceAccounts.audience }}
- apiGroups: ["*"]
  resources: ["*"]
  verbs: ["impersonate-on:serviceaccount:get", "impersonate-on:serviceaccount:list", "impersonate-on:serviceaccount:watch"]
{{- end }}
{{- end -}}
{{- end -}}

{{- /* The hosts of the Ingress and the HTTPRoute, as JSON. */ -}}
{{- define "kubecrier.outsideHosts" -}}
{{- $ingress := .Values.ingress.enabled | ternary .Values.ingress.hosts list -}}
{{- $route := .Values.httpRoute.enabled | ternary .Values.httpRoute.hostnames list -}}
{{- concat $ingress $route | toJson -}}
{{- end -}}

{{- /* The configuration file, without what only the pod knows. */ -}}
{{- define "kubecrier.settings" -}}
{{- $name := include "kubecrier.fullname" . -}}
{{- $space := .Release.Namespace -}}
{{- $hosts := list $name (printf "%s.%s" $name $space) (printf "%s.%s.svc" $name $space) (printf "%s.%s.svc.cluster.local" $name $space) -}}
{{- range include "kubecrier.outsideHosts" . | fromJsonArray -}}
{{- /* The server takes names only, and does not start with a pattern. */ -}}
{{- if not (contains "*" .) -}}{{- $hosts = append $hosts . -}}{{- end -}}
{{- end -}}
{{- $hosts = concat $hosts .Values.allowedHosts | uniq -}}
{{- $set := dict "port" 8080 "bind_address" "0.0.0.0" "allowed_hosts" $hosts "log_format" "json" -}}
{{- if include "kubecrier.hasTokens" . -}}
{{- $_ := set $set "auth_token_file" "/etc/kubecrier/tokens/tokens" -}}
{{- end -}}
{{- with .Values.auth.proxy -}}
{{- if .userHeader -}}
{{- $_ := set $set "trusted_user_header" .userHeader -}}
{{- $_ := set $set "trusted_proxies" .trustedProxies -}}
{{- end -}}
{{- with .groupsHeader -}}
{{- $_ := set $set "trusted_groups_header" . -}}
{{- end -}}
{{- end -}}
{{- with .Values.auth.clusterIdentity -}}
{{- $_ := set $set "cluster_identity" . -}}
{{- end -}}
{{- with .Values.auth.serviceAccounts.audience -}}
{{- $_ := set $set "service_account_audience" . -}}
{{- end -}}
{{- $set = merge $set (include "kubecrier.oauthSettings" . | fromJson) -}}
{{- if .Values.tls.secretName -}}
{{- $_ := set $set "tls_cert" "/etc/kubecrier/tls/tls.crt" -}}
{{- $_ := set $set "tls_key" "/etc/kubecrier/tls/tls.key" -}}
{{- end -}}
{{- if .Values.metrics.port -}}
{{- $_ := set $set "admin_address" (printf "0.0.0.0:%d" (int .Values.metrics.port)) -}}
{{- end -}}
{{- with .Values.history -}}
{{- if .enabled -}}
{{- /* A folder below the volume: the volume itself belongs to root. */ -}}
{{- $_ := set $set "history" "/var/lib/kubecrier/history" -}}
{{- $_ := set $set "history_max_age" .maxAge -}}
{{- $_ := set $set "history_max_bytes" .maxBytes -}}
{{- end -}}
{{- end -}}
{{- if include "kubecrier.hasStore" . -}}
{{- with .Values.clusterStore -}}
{{- with .servers -}}
{{- $_ := set $set "cluster_store" . -}}
{{- end -}}
{{- $_ := set $set "cluster_store_fleet" (include "kubecrier.fleet" $) -}}
{{- if .credentials.existingSecret -}}
{{- $_ := set $set "cluster_store_credentials" "/etc/kubecrier/nats/nats.creds" -}}
{{- end -}}
{{- if or .ca.secret .ca.configMap -}}
{{- $_ := set $set "cluster_store_ca_file" "/etc/kubecrier/nats/ca.crt" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with include "kubecrier.namespaces" . | fromJsonArray -}}
{{- $_ := set $set "allowed_namespaces" . -}}
{{- end -}}
{{- range $key, $value := .Values.settings -}}
{{- $_ := set $set $key $value -}}
{{- end -}}
{{- include "kubecrier.wholeNumbers" $set -}}
{{- toToml $set | trim -}}
{{- end -}}

{{- /* To helm every number is a float, which is no whole number in TOML, also in the tables of sinks. */ -}}
{{- define "kubecrier.wholeNumbers" -}}
{{- range $key, $value := . -}}
{{- if and (kindIs "float64" $value) (eq (floor $value) $value) -}}
{{- $_ := set $ $key (int64 $value) -}}
{{- else if kindIs "slice" $value -}}
{{- range $value -}}
{{- if kindIs "map" . -}}
{{- include "kubecrier.wholeNumbers" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What no schema can say. */ -}}
{{- define "kubecrier.checks" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is empty: name the image of kubecrier, e.g. --set image.repository=registry.example/kubecrier" -}}
{{- end -}}
{{- with .Values.auth -}}
{{- if not (or .tokens.existingSecret .tokens.values .proxy.userHeader .oauth.issuers .serviceAccounts.audience) -}}
{{- fail "nobody would have to say who they are: everyone in the cluster could read what the ServiceAccount may read. Set auth.tokens.existingSecret, auth.tokens.values, auth.proxy, auth.oauth.issuers or auth.serviceAccounts.audience" -}}
{{- end -}}
{{- include "kubecrier.oauthChecks" . -}}
{{- if and .tokens.existingSecret .tokens.values -}}
{{- fail "auth.tokens.existingSecret and auth.tokens.values exclude each other: put all tokens into the Secret" -}}
{{- end -}}
{{- if and .proxy.userHeader (not .proxy.trustedProxies) -}}
{{- fail "auth.proxy.userHeader needs auth.proxy.trustedProxies: without networks everyone could write the header" -}}
{{- end -}}
{{- if and .proxy.trustedProxies (not .proxy.userHeader) -}}
{{- fail "auth.proxy.trustedProxies needs auth.proxy.userHeader, the header in which they name the caller" -}}
{{- end -}}
{{- if and .proxy.groupsHeader (not .proxy.userHeader) -}}
{{- fail "auth.proxy.groupsHeader needs auth.proxy.userHeader, the header in which the proxy names the caller" -}}
{{- end -}}
{{- if and .proxy.groupsHeader (ne .clusterIdentity "impersonate") -}}
{{- fail "auth.proxy.groupsHeader needs auth.clusterIdentity=impersonate: groups say what a caller may read" -}}
{{- end -}}
{{- end -}}
{{- with .Values.clusterStore -}}
{{- if and (not (include "kubecrier.hasStore" $)) (or .fleet .credentials.existingSecret .ca.secret .ca.configMap) -}}
{{- fail "clusterStore needs clusterStore.servers, the addresses of NATS, or clusterStore.serversSecret" -}}
{{- end -}}
{{- if and .servers .serversSecret.name -}}
{{- fail "clusterStore.servers and clusterStore.serversSecret exclude each other: put all addresses into the Secret" -}}
{{- end -}}
{{- if and .ca.secret .ca.configMap -}}
{{- fail "clusterStore.ca.secret and clusterStore.ca.configMap exclude each other" -}}
{{- end -}}
{{- range .servers -}}
{{- if contains "@" . -}}
{{- fail "clusterStore.servers has a user, a password or a token in a URL, and all of it would be in a ConfigMap: put the URLs into a Secret, and name it in clusterStore.serversSecret.name; or leave them without credentials, and name a .creds file in clusterStore.credentials.existingSecret" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if regexMatch `://[^/?#\s"']*@` (include "kubecrier.settings" .) -}}
{{- fail "a setting is a URL with a user or a password in it, and all settings are in a ConfigMap, which is not for secrets: leave them out of the URL" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not (include "kubecrier.hasStore" .)) (or .Values.ingress.enabled .Values.httpRoute.enabled) -}}
{{- fail "replicas is more than 1, and each pod has sessions of its own: an Ingress or a Gateway sends requests to any pod, whatever the affinity of the Service. Set clusterStore.servers, so that any pod serves any client, or replicas=1" -}}
{{- end -}}
{{- if .Values.history.enabled -}}
{{- if and (gt (int .Values.replicas) 1) (or .Values.history.persistent (not (include "kubecrier.hasStore" .))) -}}
{{- fail "history.enabled with a claim needs replicas=1: one pod has the folder. With history.persistent=false and clusterStore each pod has a folder of its own" -}}
{{- end -}}
{{- if and .Values.history.existingClaim (not .Values.history.persistent) -}}
{{- fail "history.existingClaim needs history.persistent=true" -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.rbac.scope "namespaces") (not .Values.rbac.namespaces) -}}
{{- fail "rbac.scope is namespaces, but rbac.namespaces is empty" -}}
{{- end -}}
{{- if and .Values.rbac.namespaces (ne .Values.rbac.scope "namespaces") -}}
{{- fail "rbac.namespaces needs rbac.scope=namespaces" -}}
{{- end -}}
{{- if and .Values.metrics.port (not .Values.networkPolicy.enabled) -}}
{{- fail "metrics.port serves /metrics and /stats without a token: set networkPolicy.enabled, and who may read them in networkPolicy.metricsFrom; or leave metrics.port at 0" -}}
{{- end -}}
{{- if eq (int .Values.metrics.port) 8080 -}}
{{- fail "metrics.port must not be 8080, where /mcp is" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.port) (not .Values.metrics.serviceMonitor.tokenSecret.name) -}}
{{- fail "metrics.serviceMonitor needs a token, in metrics.serviceMonitor.tokenSecret.name, or metrics.port" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts is empty" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs is empty: name the Gateway" -}}
{{- end -}}
{{- if not (or .Values.allowedHosts .Values.auth.oauth.publicUrl) -}}
{{- range include "kubecrier.outsideHosts" . | fromJsonArray -}}
{{- if contains "*" . -}}
{{- fail (printf "%s stands for many hosts, and the server refuses requests to hosts that it does not know: name those that clients use in allowedHosts" .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.hostnames) -}}
{{- fail "httpRoute.hostnames is empty, and the server refuses requests to hosts that it does not know: name them there, or in allowedHosts" -}}
{{- end -}}
{{- end -}}
{{- if and (has "*" .Values.allowedHosts) .Values.auth.proxy.userHeader -}}
{{- fail "allowedHosts may be * only without auth.proxy: else any web page could call the server under its own name" -}}
{{- end -}}
{{- end -}}
