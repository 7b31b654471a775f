use std::fmt::Debug;

use serde::{
    de::{
        DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor,
        value::{BorrowedStrDeserializer, Error, StringDeserializer},
    },
    forward_to_deserialize_any,
};

use super::*;

/// Fields whose words are chosen from a few, or follow the rules of names, quantities and
/// ports. A new field has to be added here or to the free texts of its object.
const BOUND: [&str; 40] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "kind",
    "type",
    "status",
    "reason",
    "phase",
    "labels",
    "matchLabels",
    "selector",
    "finalizers",
    "nodeName",
    "nominatedNodeName",
    "schedulerName",
    "serviceAccountName",
    "claimName",
    "volumeName",
    "storageClassName",
    "volumeBindingMode",
    "restartPolicy",
    "concurrencyPolicy",
    "failurePolicy",
    "conditionType",
    "clusterIP",
    "key",
    "effect",
    "image",
    "targetPort",
    "limits",
    "requests",
    "hard",
    "used",
    "schedule",
    "timeZone",
    "protocol",
    "serviceName",
    "ingressClassName",
    "allocatedResourceStatuses",
];

/// An object that has every field of its type; a text is the path of its field, as in
/// `«status.conditions.message»`.
#[derive(Clone)]
struct Full {
    path: String,
}

struct Fields {
    path: String,
    names: std::slice::Iter<'static, &'static str>,
    next: &'static str,
}

struct Once(Option<Full>);

impl Full {
    fn text(&self) -> String {
        format!("«{}»", self.path)
    }
}

impl<'de> Deserializer<'de> for Full {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(true)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(1)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i32(1)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Once(Some(self)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Once(Some(self)))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Fields {
            path: self.path,
            names: fields.iter(),
            next: "",
        })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct enum identifier ignored_any
    }
}

impl<'de> SeqAccess<'de> for Once {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.0.take().map(|one| seed.deserialize(one)).transpose()
    }
}

/// A map with the path as its only key, and as the value of it.
impl<'de> MapAccess<'de> for Once {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let key = self.0.as_ref().map(Full::text);
        key.map(|key| seed.deserialize(StringDeserializer::new(key)))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.0.take().unwrap())
    }
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(name) = self.names.next() else {
            return Ok(None);
        };
        self.next = name;
        let key = BorrowedStrDeserializer::new(name);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let path = match &*self.path {
            "" => self.next.to_owned(),
            path => format!("{path}.{}", self.next),
        };
        seed.deserialize(Full { path })
    }
}

/// The paths of the texts in an object.
fn paths(object: &impl Debug) -> Vec<String> {
    let printed = format!("{object:?}");
    let texts = printed.split('«').skip(1);
    texts
        .filter_map(|rest| Some(rest.split_once('»')?.0.to_owned()))
        .collect()
}

/// The paths of the free texts of a type.
fn check<T: Object + Debug>() -> Vec<String> {
    let root = Full {
        path: String::new(),
    };
    let mut object = T::deserialize(root).unwrap();
    assert!(
        paths(&object).contains(&"metadata.name".to_owned()),
        "{object:?}"
    );
    let mut free = Vec::new();
    for text in object.free_texts() {
        free.extend(paths(text));
        *text = Box::default();
    }
    for path in paths(&object) {
        let field = path.rsplit('.').next().unwrap_or_default();
        assert!(
            BOUND.contains(&field),
            "{}: {path} is no free text",
            T::KIND
        );
    }
    free
}

#[test]
fn what_somebody_else_wrote_is_a_free_text() {
    let conditions = ["status.conditions.message"];
    let nothing: [&str; 0] = [];
    assert_eq!(
        check::<Pod>(),
        [
            "status.conditions.message",
            "status.message",
            "status.initContainerStatuses.state.waiting.message",
            "status.initContainerStatuses.state.terminated.message",
            "status.initContainerStatuses.lastState.waiting.message",
            "status.initContainerStatuses.lastState.terminated.message",
            "status.containerStatuses.state.waiting.message",
            "status.containerStatuses.state.terminated.message",
            "status.containerStatuses.lastState.waiting.message",
            "status.containerStatuses.lastState.terminated.message",
        ]
    );
    assert_eq!(check::<Node>(), conditions);
    assert_eq!(check::<Namespace>(), conditions);
    assert_eq!(check::<Deployment>(), conditions);
    assert_eq!(check::<ReplicaSet>(), conditions);
    assert_eq!(check::<StatefulSet>(), conditions);
    assert_eq!(check::<DaemonSet>(), nothing);
    assert_eq!(check::<Job>(), conditions);
    assert_eq!(check::<CronJob>(), nothing);
    let volume = ["status.conditions.message", "status.message"];
    assert_eq!(check::<PersistentVolumeClaim>(), volume);
    assert_eq!(check::<PersistentVolume>(), volume);
    assert_eq!(check::<StorageClass>(), nothing);
    assert_eq!(check::<HorizontalPodAutoscaler>(), conditions);
    assert_eq!(check::<PodDisruptionBudget>(), conditions);
    assert_eq!(check::<ResourceQuota>(), nothing);
    assert_eq!(check::<Service>(), nothing);
    assert_eq!(check::<EndpointSlice>(), nothing);
    assert_eq!(check::<Ingress>(), nothing);
    let route = ["status.parents.conditions.message"];
    assert_eq!(check::<HttpRoute>(), route);
    assert_eq!(check::<ApiService>(), conditions);
    assert_eq!(check::<Event>(), ["message"]);
}

#[test]
fn an_annotation_is_kept_for_its_name_or_its_number() {
    let meta: Meta = serde_json::from_str(
        r#"{"annotations": {
            "control-plane.alpha.kubernetes.io/leader": "{\"holderIdentity\": \"me\"}",
            "deployment.kubernetes.io/revision": "7",
            "kubectl.kubernetes.io/last-applied-configuration": "{}"
        }}"#,
    )
    .unwrap();
    assert_eq!(meta.revision(), Some(7));
    let kept: Vec<_> = meta.annotations.into_iter().collect();
    let leader = "control-plane.alpha.kubernetes.io/leader";
    let revision = "deployment.kubernetes.io/revision";
    let wanted = [(leader.into(), "".into()), (revision.into(), "7".into())];
    assert_eq!(kept, wanted);
}
