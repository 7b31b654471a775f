{{- /* The settings of OAuth, as JSON; what is empty is left to the server. */ -}}
{{- define "kubecrier.oauthSettings" -}}
{{- $set := dict -}}
{{- with .Values.auth.oauth -}}
{{- if .issuers -}}
{{- $_ := set $set "oauth_issuer" .issuers -}}
{{- $_ := set $set "public_url" .publicUrl -}}
{{- if not .contentScopes -}}
{{- $_ := set $set "oauth_content_scopes" false -}}
{{- end -}}
{{- range $key, $value := dict "oauth_audience" .audiences "oauth_required_scope" .requiredScopes "oauth_algorithms" .algorithms "username_claim" .usernameClaim "username_prefix" .usernamePrefix "groups_claim" .groupsClaim "groups_prefix" .groupsPrefix "allowed_groups" .allowedGroups "oauth_introspection_url" .introspection.url "oauth_introspection_client_id" .introspection.clientId -}}
{{- if $value -}}
{{- $_ := set $set $key $value -}}
{{- end -}}
{{- end -}}
{{- if or .ca.configMap .ca.secret -}}
{{- $_ := set $set "oauth_ca_file" "/etc/kubecrier/oauth/ca.crt" -}}
{{- end -}}
{{- if .introspection.existingSecret -}}
{{- $_ := set $set "oauth_introspection_secret_file" "/etc/kubecrier/oauth/client-secret" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $set -}}
{{- end -}}

{{- /* The paths that clients ask for, as JSON: with OAuth also where they find the issuer. */ -}}
{{- define "kubecrier.paths" -}}
{{- $paths := list "/mcp" -}}
{{- if .Values.auth.oauth.issuers -}}
{{- $paths = append $paths "/.well-known/oauth-protected-resource" -}}
{{- end -}}
{{- $paths | toJson -}}
{{- end -}}

{{- /* What no schema can say, of the values below auth. */ -}}
{{- define "kubecrier.oauthChecks" -}}
{{- $identity := .clusterIdentity -}}
{{- with .oauth -}}
{{- if .issuers -}}
{{- if not .publicUrl -}}
{{- fail "auth.oauth.issuers needs auth.oauth.publicUrl, the URL by which clients reach the server: tokens are for it" -}}
{{- end -}}
{{- if not $identity -}}
{{- fail "auth.oauth.issuers needs auth.clusterIdentity: impersonate for callers with rights of their own, shared if all of them may read what the ServiceAccount may read" -}}
{{- end -}}
{{- else -}}
{{- range $key, $value := omit . "issuers" "contentScopes" "ca" "introspection" -}}
{{- if $value -}}
{{- fail (printf "auth.oauth.%s needs auth.oauth.issuers" $key) -}}
{{- end -}}
{{- end -}}
{{- if or .ca.configMap .ca.secret -}}
{{- fail "auth.oauth.ca needs auth.oauth.issuers" -}}
{{- end -}}
{{- if .introspection.url -}}
{{- fail "auth.oauth.introspection needs auth.oauth.issuers" -}}
{{- end -}}
{{- end -}}
{{- if and .ca.configMap .ca.secret -}}
{{- fail "auth.oauth.ca.configMap and auth.oauth.ca.secret exclude each other" -}}
{{- end -}}
{{- with .introspection -}}
{{- $given := compact (list .url .clientId .existingSecret) -}}
{{- if and $given (ne (len $given) 3) -}}
{{- fail "auth.oauth.introspection needs url, clientId and existingSecret together" -}}
{{- end -}}
{{- end -}}
{{- if and (or .groupsPrefix .allowedGroups) (not .groupsClaim) -}}
{{- fail "auth.oauth.groupsPrefix and auth.oauth.allowedGroups need auth.oauth.groupsClaim" -}}
{{- end -}}
{{- end -}}
{{- end -}}
