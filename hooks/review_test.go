package hooks

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// Defaults are filled in, and short versions completed. O1, O6
func TestWebhookBindings(t *testing.T) {
	config, err := ParseConfig(Module, []byte(`{"configVersion": "v1",
 "kubernetes": [{"name": "pods", "kind": "Pod", "group": "g"}],
 "kubernetesMutating": [{"name": "b.example.com", "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}], "failurePolicy": "Ignore", "timeoutSeconds": 3}],
 "kubernetesValidating": [{"name": "b.example.com", "group": "g", "labelSelector": {"matchLabels": {"a": "b"}}, "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced"}]}],
 "kubernetesCustomResourceConversion": [{"crdName": "rockets.example.com", "conversions": [{"fromVersion": "v1", "toVersion": "example.com/v2"}]}]}`))
	must(t, err)
	validating, mutating := config.Review(OnValidating, "b.example.com"), config.Review(OnMutating, "b.example.com")
	if *validating.Webhook.FailurePolicy != admissionv1.Fail || *validating.Webhook.TimeoutSeconds != 10 || *validating.Webhook.SideEffects != admissionv1.SideEffectClassNone ||
		validating.Webhook.ObjectSelector.MatchLabels["a"] != "b" || *validating.Webhook.Rules[0].Scope != admissionv1.NamespacedScope {
		t.Errorf("validating webhook %+v", validating.Webhook)
	}
	if *mutating.Webhook.FailurePolicy != admissionv1.Ignore || time.Duration(*mutating.Webhook.TimeoutSeconds) != 3 {
		t.Errorf("mutating webhook %+v", mutating.Webhook)
	}
	if got := validating.Snapshots; !reflect.DeepEqual(got, []string{"pods"}) {
		t.Errorf("snapshots of the group: %v", got)
	}
	want := Conversion{
		Binding: Binding{Name: "kubernetesCustomResourceConversion"}, CRD: "rockets.example.com",
		Steps: []ConversionStep{{"example.com/v1", "example.com/v2"}},
	}
	if got := config.Conversions[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := CheckWebhookNames([]Hook{{File: File{Name: "a"}, Config: config}, {Config: config}}); err == nil {
		t.Error("two hooks may have webhooks of one name")
	}
}

// What hooks answer, and what is wrong with it. O4, O7
func TestResponses(t *testing.T) {
	for text, want := range map[string]Response{
		`{"allowed": true}`: {Allowed: true},
		`{"allowed": false, "message": "no", "warnings": ["w"]}`:                                   {Message: "no", Warnings: []string{"w"}},
		`{"allowed": true, "patch": [{"op": "remove", "path": "/a"}]}`:                             {Allowed: true, Patch: json.RawMessage(`[{"op": "remove", "path": "/a"}]`)},
		`{"allowed": true, "patch": "W3sib3AiOiAicmVtb3ZlIiwgInBhdGgiOiAiL2EifV0=", "other": "x"}`: {Allowed: true, Patch: json.RawMessage(`[{"op": "remove", "path": "/a"}]`)},
		`{"allowed": true, "patch": ""}`:                                                           {Allowed: true},
		`{"allowed": true, "patch": null}`:                                                         {Allowed: true},
	} {
		got, err := ParseReview([]byte(text))
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: got %+v and error %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                       "the hook wrote nothing",
		"yes":                                    "yes is no answer",
		"{}":                                     "has no allowed",
		`[]`:                                     "is no answer",
		`{"allowed": null}`:                      "has no allowed",
		`{"allowed": true, "patch": "?"}`:        "no base64",
		`{"allowed": true, "patch": {}}`:         "patch: it must be a list",
		`{"allowed": true, "patch": [{}]}`:       "patch: it must be a list",
		`{"allowed": true, "patch": "e30="}`:     "patch: it must be a list",
		`{"allowed": true, "warnings": "a"}`:     "is no answer",
		`{"allowed": true, "patch": [null]}`:     "patch: it must be a list",
		`{"allowed": true, "patch": [[1]]}`:      "patch: it must be a list",
		`{"allowed": true} {"allowed": false}`:   "is no answer",
		`{"allowed": true, "message": ["long"]}`: "is no answer",
	} {
		_, err := ParseReview([]byte(text))
		wantError(t, err, want)
	}
	for text, want := range map[string]string{"": "the hook wrote nothing", "{}": "neither convertedObjects nor", "[]": "is no answer"} {
		_, err := ParseConversion([]byte(text))
		wantError(t, err, want)
	}
}

// A conversion gives back the same objects in the same order. O7
func TestCheckConverted(t *testing.T) {
	list := func(texts ...string) (all []json.RawMessage) {
		for _, text := range texts {
			all = append(all, json.RawMessage(text))
		}
		return all
	}
	before := list(`{"apiVersion":"e/v1","kind":"A","metadata":{"name":"a","uid":"1"}}`, `{"apiVersion":"e/v1","kind":"A","metadata":{"name":"b"}}`)
	a, b := `{"apiVersion":"e/v2","kind":"A","metadata":{"name":"a","uid":"1","labels":{"x":"y"}}}`, `{"apiVersion":"e/v2","kind":"A","metadata":{"name":"b"}}`
	if err := CheckConverted(before, list(a, b), "e/v2"); err != nil {
		t.Error(err)
	}
	for want, after := range map[string][]json.RawMessage{
		"has 1 objects instead of 2":               list(a),
		`convertedObjects[0].metadata.name is "b"`: list(b, a),
		`convertedObjects[1].apiVersion is "e/v1"`: list(a, string(before[1])),
		`convertedObjects[1].kind is "B"`:          list(a, `{"apiVersion":"e/v2","kind":"B","metadata":{"name":"b"}}`),
		`convertedObjects[0].metadata.uid is null`: list(`{"apiVersion":"e/v2","kind":"A","metadata":{"name":"a"}}`, b),
		"convertedObjects[0]: json":                list(`"a"`, b),
	} {
		wantError(t, CheckConverted(before, after, "e/v2"), want)
	}
}
