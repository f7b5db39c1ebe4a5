package values

import (
	"fmt"
	"strings"
	"testing"
)

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
