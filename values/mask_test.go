package values

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// J7: of Kubernetes objects the content of Secrets is hidden, and what looks like a secret in others; names and references, which
// people look for, are not.
func TestSecretsOfObjectsAreHidden(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"a Secret": {
			`{kind: Secret, type: Opaque, metadata: {name: tokens, annotations: {kubectl.kubernetes.io/last-applied-configuration: s3cret, note: n}}, data: {a: s3cret}, stringData: {b: s3cret}}`,
			`{kind: Secret, type: Opaque, metadata: {name: tokens, annotations: {kubectl.kubernetes.io/last-applied-configuration: "***", note: n}}, data: {a: "***"}, stringData: {b: "***"}}`,
		},
		"a ConfigMap": {
			`{kind: ConfigMap, metadata: {name: secret-names}, data: {password: s3cret, url: u, pem: "-----BEGIN s3cret"}}`,
			`{kind: ConfigMap, metadata: {name: secret-names}, data: {password: "***", url: u, pem: "***"}}`,
		},
		"environment variables": {
			`{kind: Pod, spec: {containers: [{env: [{name: DB_PASSWORD, value: s3cret}, {name: URL, value: u}, {name: DB_TOKEN, valueFrom: {secretKeyRef: {name: db, optional: true}}}]}]}}`,
			`{kind: Pod, spec: {containers: [{env: [{name: DB_PASSWORD, value: "***"}, {name: URL, value: u}, {name: DB_TOKEN, valueFrom: {secretKeyRef: {name: db, optional: true}}}]}]}}`,
		},
		"references": {
			`{kind: Pod, spec: {imagePullSecrets: [{name: registry}], volumes: [{secret: {secretName: tls}}], secret: s3cret, topologyKey: zone}}`,
			`{kind: Pod, spec: {imagePullSecrets: [{name: registry}], volumes: [{secret: {secretName: tls}}], secret: "***", topologyKey: zone}}`,
		},
		"metadata without annotations": {`{kind: X, metadata: {name: token}}`, `{kind: X, metadata: {name: token}}`},
		"no object":                    {`[{password: s3cret}]`, `[{password: "***"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := ParseYAML([]byte(c.object))
			wantError(t, err)
			before, err := json.Marshal(tree)
			wantError(t, err)
			wantYAML(t, name, MaskObject(tree), c.want)
			if after, err := json.Marshal(tree); !bytes.Equal(after, before) || err != nil {
				t.Errorf("the object was changed: %s, %v", after, err)
			}
		})
	}
	if text, _ := json.Marshal(Mask(map[string]any{"a": "s3cret", "n": 1}, true)); strings.Contains(string(text), "s3cret") {
		t.Errorf("all of it: %s", text)
	}
}
