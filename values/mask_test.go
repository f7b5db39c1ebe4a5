package values

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
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

// D38, J9: one list of names decides what is a secret, in values, in objects, and in JSON and YAML inside of a ConfigMap.
func TestOneListOfNames(t *testing.T) {
	for _, name := range []string{
		"password", "adminPassword", "DB_PASSWORD", "dbpasswd", "pwd", "clientSecret", "api-token", "credentials", "privateKey", "salt", "signature", "dsn",
		"kubeconfig", "license", "licenseKey", "apikey", "api_key", "accessKeyId", "certKey", "sshKey", "TLSKey", "private", "bearer", "cookie", "sessionCookie",
		"sas", "sasUri", "webhookUrl", "slack_webhook_url", "conn", "dbConn", "conn_string", "connectionString", "pin", "userPin",
		"dockerconfigjson", ".dockerconfigjson", "dockerConfigJson", "jwt", "serviceJWT", "otp", "otp-code", "pat", "githubPat", "GITHUB_PAT", "hmac", "hmac_sha256", "seed", "walletSeed",
		"netrc", "authorPassword",
	} {
		wantYAML(t, name, Mask(map[string]any{"a": map[string]any{name: "s3cret"}}, false), fmt.Sprintf("{a: {%s: '***'}}", name))
		for form, text := range map[string]string{
			"JSON": `{"a": 1, "` + name + `": "s3cret", "b": 2}`, "indented JSON": "{\n  \"" + name + "\": \"s3cret\"\n}", "YAML": "a: 1\n" + name + ": s3cret\nb: 2\n",
			"block": "a:\n  " + name + ": |\n    s3cret\nb: 2\n", "pair": "--x=1 " + name + "=s3cret y",
		} {
			shown := Mask(map[string]any{"kind": "ConfigMap", "data": map[string]any{"config": text}}, false)
			if got := mustText(t, shown); strings.Contains(got, "s3cret") || !strings.Contains(got, "***") {
				t.Errorf("%s in %s: %s", name, form, got)
			}
			if got := mustText(t, MaskObject(map[string]any{"kind": "ConfigMap", "data": map[string]any{"config": text}})); strings.Contains(got, "s3cret") {
				t.Errorf("%s in %s of an object: %s", name, form, got)
			}
		}
	}
	for _, name := range []string{"name", "host", "image", "m", "connection", "connections", "pinned", "spinner", "webhook", "url", "sasl", "conntrack",
		"author", "authors", "co-author", "secretName", "tls-secret-name", "existingSecret", "auth.existingSecret", "topologyKey", "publicKey", "ssh_public_key",
		"path", "pattern", "patch", "seeded", "option"} {
		wantYAML(t, name, Mask(map[string]any{name: "open"}, false), fmt.Sprintf("{%s: open}", name))
	}
	for _, text := range []string{"key: open\n", "topologyKey: open\n", "publicKey: open\n", "author: open\n", "certificate: open\n", "cookie_path = /open\n", "tokenType: open\n", "existingSecret: open\n",
		"secretName: open\n", "path: open\n", "pattern=open\n"} {
		if got := hideCredentials(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// D38: below a name that looks like that of a secret everything is hidden, but what has a meaning of its own.
func TestBelowNamesOfSecrets(t *testing.T) {
	open := `{createSecretJob: {securityContext: {runAsUser: 2000, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}, resources: {limits: {cpu: 10m}}, enabled: true},
		admissionCert: {revisionHistoryLimit: 1, duration: 24h}, auth: {port: 5432, timeout: 5s}}`
	wantYAML(t, "open", Mask(yamlTree(t, open), false), open)
	wantYAML(t, "closed", Mask(yamlTree(t, `{password: {value: s3cret, number: 1234}, auth: {users: [s3cret], account: s3cret}, secretData: {db: s3cret}, tokens: {alice: 12345},
		createSecretJob: {securityContext: {password: s3cret}, extra: s3cret}, apiKeys: [s3cret, 7]}`), false),
		`{password: {value: "***", number: "***"}, auth: {users: ["***"], account: "***"}, secretData: {db: "***"}, tokens: {alice: "***"},
		createSecretJob: {securityContext: {password: "***"}, extra: "***"}, apiKeys: ["***", "***"]}`)
	// The content of a Secret, and what is marked or from the Secret with values, is hidden whatever it is called.
	wantYAML(t, "a Secret", MaskObject(yamlTree(t, `{kind: Secret, data: {port: s3cret, resources: s3cret}}`)), `{kind: Secret, data: {port: "***", resources: "***"}}`)
	wantYAML(t, "all", Mask(yamlTree(t, `{port: 1, resources: {a: s3cret}}`), true), `{port: "***", resources: {a: "***"}}`)
	wantYAML(t, "of Secrets", Mask(yamlTree(t, `{auth: {existingSecret: open, secretName: open}, author: {name: open}}`), false),
		`{auth: {existingSecret: open, secretName: open}, author: {name: open}}`)
	wantYAML(t, "webhooks", Mask(yamlTree(t, `{slack: {webhook: {url: s3cret, enabled: true, port: 1}}, webhooks: [{url: s3cret}, 1], webhook_configs: {url: [open]}, notify: "to https://hooks.slack.com/services/one/s3cret now",
		teams: "https://x.webhook.office.com/webhookb2/s3cret", discord: "https://discord.com/api/webhooks/1/s3cret", site: "https://slack.com/open"}`), false),
		`{slack: {webhook: {url: "***", enabled: true, port: 1}}, webhooks: [{url: "***"}, 1], webhook_configs: {url: ["***"]}, notify: "to https://hooks.slack.com/*** now",
		teams: "https://x.webhook.office.com/***", discord: "https://discord.com/api/webhooks/***", site: "https://slack.com/open"}`)
	if !secretPath([]string{"webhooks", "0", "url"}) || secretPath([]string{"webhook", "port"}) || secretPath([]string{"webhook", "client", "url"}) {
		t.Error("the URL of a webhook is judged otherwise in a path")
	}
	if secretPath([]string{"controller", "createSecretJob", "securityContext", "runAsUser"}) || !secretPath([]string{"auth", "users", "0"}) {
		t.Error("a path is judged otherwise than a tree")
	}
}

// D38, J7: what looks like a secret is hidden: below its key, in lists, in patches and explanations, and keys in PEM
// anywhere.
func TestSecretsAreHidden(t *testing.T) {
	section := sectionOf(t, "m", nil, `{user: u, password: s3cret, tokens: [s3cret, {x: s3cret}], auth: {enabled: true, none: null, empty: "", pin: 1234}, pem: "-----BEGIN s3cret"}`, "{password: s3cret}")
	section, err := section.Patch(patchOf(t, `[{"op":"add","path":"/m/apiToken","value":"s3cret"},{"op":"add","path":"/m/more","value":{"key":"s3cret"}}]`), Origin{})
	wantError(t, err)
	hidden := section.Secrets().Hide(section.Merged())
	leaves, err := section.Explain("", false)
	wantError(t, err)
	changes := section.Diff(section.WithoutPatches())
	for what, v := range map[string]any{"values": hidden, "config": section.Secrets().Hide(section.Config()), "patches": section.Saved(false), "leaves": leaves, "changes": changes} {
		text, err := json.Marshal(v)
		wantError(t, err)
		if strings.Contains(string(text), "s3cret") || strings.Contains(string(text), "1234") || !strings.Contains(string(text), Hidden) {
			t.Errorf("%s: %s", what, text)
		}
	}
	wantYAML(t, "merged", hidden, `{user: u, password: "***", tokens: ["***", {x: "***"}], auth: {enabled: true, none: null, empty: "", pin: "***"}, pem: "***", apiToken: "***", more: {key: "***"}}`)
	if !reflect.DeepEqual(section.Saved(true), section.saved) {
		t.Error("the patches with secrets are others")
	}
	wantYAML(t, "still there", section.Config(), "{password: s3cret}")
}

// J4: the JSON of saved operations is a patch that can be read again.
func TestSavedOperationsAreAPatch(t *testing.T) {
	section := sectionOf(t, "m", nil, "{a: 1, b: 2}", "")
	section, err := section.Patch(patchOf(t, `[{"op":"add","path":"/m/a","value":null},{"op":"remove","path":"/m/b"}]`), hookOrigin("h.sh", 5))
	wantError(t, err)
	text, err := json.Marshal(section.Saved(false))
	wantError(t, err)
	want := `[{"op":"add","path":"/m/a","value":null,"hook":"h.sh","task":"5","time":"2026-01-02T12:05:00Z"},{"op":"remove","path":"/m/b","hook":"h.sh","task":"5","time":"2026-01-02T12:05:00Z"}]`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	again, _, err := ParsePatch(text)
	wantError(t, err)
	if len(again) != 2 {
		t.Errorf("read again: %v", again)
	}
	if text, err := json.Marshal(sectionOf(t, "m", nil, "", "").Saved(false)); string(text) != "[]" || err != nil {
		t.Errorf("no patches: %s, %v", text, err)
	}
}

func TestDiff(t *testing.T) {
	before := sectionOf(t, "m", nil, "{a: 1, b: 2, c: {x: 1}, list: [1], password: old}", "{fromConfig: 1}")
	if before.Diff(before) != nil {
		t.Error("a section differs from itself")
	}
	after, err := before.Patch(patchOf(t, `[{"op":"add","path":"/m/a","value":5},{"op":"remove","path":"/m/b"},{"op":"add","path":"/m/c/y","value":2},{"op":"add","path":"/m/list/-","value":2}]`), hookOrigin("h.sh", 1))
	wantError(t, err)
	after, err = after.WithConfig(nil, Origin{Revision: "2"})
	wantError(t, err)
	var got []string
	for _, c := range after.Diff(before) {
		line := c.Path + " " + jsonText(t, c.Before) + "->" + jsonText(t, c.After)
		if c.Added {
			line += " added"
		}
		if c.Gone {
			line += " gone"
		}
		got = append(got, line)
	}
	want := []string{
		"m.a 1->5", "m.b 2->null gone", "m.c.y null->2 added",
		"m.fromConfig 1->null gone", "m.list [1]->[1,2]",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
