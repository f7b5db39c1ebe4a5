package values

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// secretSchema marks a text, a map, texts of a pattern, and a text in a list of maps.
const secretSchema = `
type: object
properties:
  plain: {}
  admin: {type: object, properties: {hash: {x-secret: true, type: string, maxLength: 30}, user: {}}}
  vault: {type: object, x-secret: true, additionalProperties: true}
  extra: {type: object, patternProperties: {"^hidden": {x-secret: true}, "^open": {}}}
  users: {type: array, items: {type: object, properties: {name: {}, pin: {x-secret: true}}}}
`

func secretSection(t testing.TB, config, secret string) *Section {
	t.Helper()
	schemas, err := CompileSchemas(SchemaFile{Path: "config-values.yaml", Data: []byte(secretSchema)}, SchemaFile{})
	wantError(t, err)
	section := sectionOf(t, "m", schemas, "", config)
	if secret != "" {
		section, err = section.WithStored(section.config, yamlTree(t, secret), section.configBy, Origin{Revision: "7"})
		wantError(t, err)
	}
	return section
}

// D40: the Secret lies right above the ConfigMap, below what hooks have in memory, and explanations name it.
func TestSecretLayer(t *testing.T) {
	section := secretSection(t, "{plain: 1, admin: {user: a, hash: below}}", "{admin: {hash: above}, vault: {x: 1}}")
	wantYAML(t, "config", section.Config(), "{plain: 1, admin: {user: a, hash: above}, vault: {x: 1}}")
	wantYAML(t, "merged", section.Merged(), "{plain: 1, admin: {user: a, hash: above}, vault: {x: 1}}")
	leaves, err := section.Explain("admin.hash", true)
	wantError(t, err)
	if got := leaves[0]; !got.Secret || len(got.Sources) != 2 || got.Sources[0].Layer != LayerSecret || got.Sources[0].Revision != "7" || got.Sources[1].Layer != LayerConfigMap {
		t.Errorf("explained as %+v", got)
	}
	leaves, err = section.Explain("admin.hash", false)
	wantError(t, err)
	if got := leaves[0].Sources; got[0].Value != Hidden || got[1].Value != Hidden {
		t.Errorf("shown: %+v", got)
	}
	section, err = section.WithStored(section.config, nil, section.configBy, Origin{})
	wantError(t, err)
	wantYAML(t, "without", section.Config(), "{plain: 1, admin: {user: a, hash: below}}")
}

// D40: the form of the ConfigMap, but no flags; no error repeats what stands in it.
func TestParseSecret(t *testing.T) {
	sections, err := ParseSecret(map[string]string{"global": "a: 1", "someModule": "b: 2", "empty": ""})
	wantError(t, err)
	wantYAML(t, "sections", map[string]any(sections), "{global: {a: 1}, someModule: {b: 2}}")
	for data, want := range map[string]string{
		"someModuleEnabled=true":        "key someModuleEnabled of the Secret: flags and maintenance modes belong in the ConfigMap",
		"someModuleMaintenance=x":       "key someModuleMaintenance of the Secret: flags and maintenance modes belong in the ConfigMap",
		"someModule=false":              "must be a map or a list, is a scalar; to enable or disable a module, set someModuleEnabled in the ConfigMap",
		"someModule=planted":            "must be a map or a list, is a string",
		"someModule=a: *planted":        "its content is not shown",
		"someModule=a: 1\na: planted\n": "line 2: is not valid YAML",
		"someModule=planted: [":         "is not valid YAML",
		"some-module=a: 1":              "did you mean someModule?",
	} {
		key, text, _ := strings.Cut(data, "=")
		_, err := ParseSecret(map[string]string{key: text})
		wantError(t, err, want)
		if strings.Contains(err.Error(), "planted") {
			t.Errorf("the content is shown: %v", err)
		}
	}
	wantError(t, second(ParseSecret(map[string]string{"m": strings.Repeat("[", 200)})), "key m of the Secret")
}

// D41: what a hook patches is divided by the schema.
func TestConfigPatchIsDivided(t *testing.T) {
	for name, c := range map[string]struct{ config, secret, patch, wantConfig, wantSecret string }{
		"both": {
			"{plain: 1}", "", `[{"op":"add","path":"/m/admin","value":{"hash":"x","user":"u"}},{"op":"replace","path":"/m/plain","value":2}]`,
			"{plain: 2, admin: {user: u}}", "{admin: {hash: x}}",
		},
		"the Secret only": {"{plain: 1}", "", `[{"op":"add","path":"/m/vault","value":{"a":1}}]`, "{plain: 1}", "{vault: {a: 1}}"},
		"a pattern":       {"", "", `[{"op":"add","path":"/m/extra","value":{"hiddenA":1,"openB":2}}]`, "{extra: {openB: 2}}", "{extra: {hiddenA: 1}}"},
		"a list with a secret is stored as a whole": {
			"", "", `[{"op":"add","path":"/m/users","value":[{"name":"a","pin":1}]}]`, "{}", "{users: [{name: a, pin: 1}]}",
		},
		"what is touched moves": {
			"{admin: {hash: old, user: u}}", "", `[{"op":"replace","path":"/m/admin/hash","value":"old"}]`, "{admin: {user: u}}", "{admin: {hash: old}}",
		},
		"what is not stays": {
			"{admin: {hash: old, user: u}}", "{vault: {a: 1}}", `[{"op":"replace","path":"/m/admin/user","value":"v"}]`, "{admin: {hash: old, user: v}}", "{vault: {a: 1}}",
		},
		"what lies in the Secret is changed there": {
			"{plain: below}", "{plain: above}", `[{"op":"replace","path":"/m/plain","value":"new"}]`, "{plain: below}", "{plain: new}",
		},
		"removed from both": {
			"{admin: {hash: below, user: u}}", "{admin: {hash: above}}", `[{"op":"remove","path":"/m/admin/hash"}]`, "{admin: {user: u}}", "null",
		},
		"nothing is left": {"{plain: 1}", "{vault: {a: 1}}", `[{"op":"remove","path":"/m"}]`, "{}", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			section := secretSection(t, c.config, c.secret)
			changed, err := section.PatchConfig(patchOf(t, c.patch), Origin{Hook: "h"}, true)
			wantError(t, err)
			wantYAML(t, "the ConfigMap", changed.Stored().InConfigMap(), c.wantConfig)
			wantYAML(t, "the Secret", changed.Stored().Secret, c.wantSecret)
			all, err := section.PatchConfig(patchOf(t, c.patch), Origin{}, false)
			wantError(t, err)
			if all.Stored().Secret != nil || Checksum(all.Config()) != Checksum(changed.Config()) {
				t.Errorf("without a Secret: %v and %v", all.Stored().InConfigMap(), all.Stored().Secret)
			}
		})
	}
}

// D41: however a patch is divided, both parts together are what the patch made of them, a mark that is touched is in
// the Secret only, and what is not touched stays to the letter.
func TestDividedPartsAreTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	keys := []string{"plain", "admin", "vault", "extra", "users"}
	below := []string{"hash", "user", "hiddenA", "openB"}
	var value func(depth int) any
	value = func(depth int) any {
		switch n := random.IntN(6); {
		case n < 2 || depth == 0:
			return int64(random.IntN(3))
		case n == 2:
			return []any{map[string]any{"pin": int64(random.IntN(3))}}
		default:
			m := map[string]any{}
			for range random.IntN(3) {
				m[below[random.IntN(len(below))]] = value(depth - 1)
			}
			return m
		}
	}
	tree := func() map[string]any {
		m := map[string]any{}
		for range random.IntN(4) {
			m[keys[random.IntN(len(keys))]] = value(2)
		}
		return m
	}
	section := secretSection(t, "", "")
	for range 20000 {
		s := *section
		s.config, s.secret = tree(), tree()
		operation := add(pointer{"m", keys[random.IntN(len(keys))]}, value(2))
		if _, is := lookup(s.Config(), pointer{mustPointer(operation.Path)[1]}); is && random.IntN(3) == 0 {
			operation = Operation{Op: "remove", Path: operation.Path}
		} else if random.IntN(2) == 0 {
			if m, _ := lookup(s.Config(), mustPointer(operation.Path)[1:]); isMapOf(m) {
				operation = add(append(mustPointer(operation.Path), below[random.IntN(len(below))]), value(1))
			}
		}
		patched, steps, err := Patch{operation}.apply("m", s.Config())
		wantError(t, err)
		config, secret := s.Stored().divide(patched, steps, s.schemas.marks)
		if whole := Merge(config, secret); Checksum(orEmpty(whole)) != Checksum(patched) {
			t.Fatalf("%s on %v and %v: %v and %v are not %v", operation, s.config, s.secret, config, secret, patched)
		}
		at := mustPointer(operation.Path)[1:]
		marks, _ := s.Secrets().along(at)
		if now, there := lookup(config, at); there && marks.secret() {
			t.Fatalf("%s: the secret %v is in the ConfigMap", operation, now)
		}
		for _, key := range keys {
			if key == at[0] {
				continue
			}
			for was, now := range map[*any]any{&s.config: config, &s.secret: secret} {
				before, _ := lookup(*was, pointer{key})
				if after, _ := lookup(now, pointer{key}); !reflect.DeepEqual(before, after) {
					t.Fatalf("%s changed %s: from %v to %v", operation, key, *was, now)
				}
			}
		}
	}
}

func orEmpty(tree any) any {
	if tree == nil {
		return map[string]any{}
	}
	return tree
}

// D41: no page, no explanation and no violation shows what the schema marks, or what comes from the Secret.
func TestMarkedSecretsAreHidden(t *testing.T) {
	section := secretSection(t, "{plain: shown, admin: {hash: planted1}, users: [{name: shown, pin: planted2}]}",
		"{vault: {a: planted3}, extra: {openB: planted4, hiddenC: {d: [planted5]}}, plain2: planted6}")
	section, err := section.Patch(patchOf(t, `[{"op":"add","path":"/m/admin/hash","value":"planted7-and-much-too-long-for-it"}]`), Origin{})
	wantError(t, err)
	leaves, err := section.Explain("", false)
	wantError(t, err)
	text, err := YAML(mustTree(t, map[string]any{"merged": section.Secrets().Hide(section.Merged()), "config": section.Secrets().Hide(section.Config()), "patches": section.Saved(false), "leaves": leaves}))
	wantError(t, err)
	if strings.Contains(string(text), "planted") || !strings.Contains(string(text), "shown") {
		t.Errorf("shown:\n%s", text)
	}
	wrong := secretSection(t, "{admin: {hash: planted-and-much-too-long-for-it}}", "{plain2: planted}")
	if err := wrong.ValidateConfig(); err == nil || strings.Contains(err.Error(), "planted") || !strings.Contains(err.Error(), "m.admin.hash: must have at most 30 characters") {
		t.Errorf("the violation: %v", err)
	}
	texts := strings.Join(section.Secrets().Texts(), " ")
	for _, planted := range []string{"planted1", "planted2", "planted3", "planted4", "planted5", "planted6", "planted7"} {
		if !strings.Contains(texts, planted) {
			t.Errorf("%s is not known: %s", planted, texts)
		}
	}
	if strings.Contains(texts, "shown") {
		t.Errorf("known: %s", texts)
	}
}

// J9: a number is hidden in all the forms in which templates print it (H2).
func TestSecretNumbers(t *testing.T) {
	section := secretSection(t, "{}", "{pin: 12345678, long: 12345678901234567890, half: 0.25}")
	hider := NewHider(section.Secrets().Texts())
	for _, text := range []string{"12345678", "1.2345678e+07", "12345678901234567890", "1.2345678901234567e+19", "12345678901234567000"} {
		if got := hider.Text("a " + text + " b"); got != "a "+Hidden+" b" {
			t.Errorf("%s becomes %s", text, got)
		}
	}
}

// D41: what the schema marks while it lies in the ConfigMap is named.
func TestMisplacedSecrets(t *testing.T) {
	section := secretSection(t, "{plain: 1, admin: {hash: x, user: u}, users: [{name: a, pin: 1}]}", "")
	if got, want := section.Secrets().Misplaced(), []string{"m.admin.hash", "m.users"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMarksAreCompiled(t *testing.T) {
	_, err := CompileSchemas(SchemaFile{Path: "c.yaml", Data: []byte(`{properties: {a: {x-secret: maybe}}}`)}, SchemaFile{})
	wantError(t, err, "schema c.yaml: /properties/a: x-secret must be true or false, is a string")
	recursive := `{definitions: {node: {properties: {pin: {x-secret: true}, next: {$ref: "#/definitions/node"}}}}, $ref: "#/definitions/node"}`
	schemas, err := CompileSchemas(SchemaFile{}, SchemaFile{Path: "v.yaml", Data: []byte(recursive)})
	wantError(t, err)
	section := sectionOf(t, "m", schemas, "", "{next: {next: {pin: planted}}}")
	wantYAML(t, "hidden", section.Secrets().Hide(section.Merged()), `{next: {next: {pin: "***"}}}`)
}

// D41: a known secret is found in any text, also quoted and in base64; short words are not looked for.
func TestHider(t *testing.T) {
	h := NewHider([]string{"pl'an\"ted <1>", "pl'an\"ted <1> and more", "admin", "first line of a key\nsecond line of a key\n", "tok3nA1b\nenabled: true1\nproduction\nab1\n"})
	for text, want := range map[string]string{
		"a pl'an\"ted <1> b":               "a *** b",
		"pl'an\"ted <1> and more":          "***",
		`{"a":"pl'an\"ted <1>"}`:           `{"a":"***"}`,
		`{"a":"pl'an\"ted \u003c1\u003e"}`: `{"a":"***"}`,
		"a: 'pl''an\"ted <1>'":             "a: '***'",
		"cGwnYW4idGVkIDwxPg==":             "***",
		"pl%27an%22ted+%3C1%3E":            "***",
		"  second line of a key":           "  ***",
		"admin":                            "admin",
		"a line tok3nA1b of a list":        "a line *** of a list",
		"production, enabled: true1, ab1":  "production, enabled: true1, ab1",
	} {
		if got := h.Text(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	wantYAML(t, "tree", h.Tree(yamlTree(t, `{a: ["pl'an\"ted <1>", 5], b: true}`)), `{a: ["***", 5], b: true}`)
	var none *Hider
	if none.Text("x") != "x" || NewHider([]string{"", "short"}) != nil {
		t.Error("nothing is hidden without secrets")
	}
}

// J9: inside of texts credentials are recognized by what stands before them.
func TestCredentialsInTexts(t *testing.T) {
	for text, want := range map[string]string{
		"--token=s3cret --v=2":                                                            "--token=*** --v=2",
		"postgres://app:s3cret@db:5432/x?a=b":                                             "postgres://app:***@db:5432/x?a=b",
		"[db]\npassword = s3cret and more\nport=1":                                        "[db]\npassword = ***\nport=1",
		"db:\n  password: s3cret\n  host: h\n":                                            "db:\n  password: ***\n  host: h\n",
		`{"apiKey": "s3cret", "host": "h"}`:                                               `{"apiKey": "***", "host": "h"}`,
		"curl -H 'Authorization: Bearer s3cret' h":                                        "curl -H 'Authorization: Bearer ***' h",
		"export DB_PASSWORD=s3cret; run":                                                  "export DB_PASSWORD=***",
		"--password-file=/etc/x --secret-name=tls":                                        "--password-file=/etc/x --secret-name=tls",
		"password: ${PASSWORD}\ntoken: $(TOKEN)\n":                                        "password: ${PASSWORD}\ntoken: $(TOKEN)\n",
		"passwordless: true\nssh://git@host/x\n":                                          "passwordless: true\nssh://git@host/x\n",
		"proxy_pass http://up:8080;\nsecrets:\n- a":                                       "proxy_pass http://up:8080;\nsecrets:\n- a",
		"a:\n  password: |-\n    s3cret\n\n     more\n  b: c\n":                           "a:\n  password: |-\n    ***\n\n     ***\n  b: c\n",
		"passwordFile: |\n  /etc/x\ntext: |\n  a\n":                                       "passwordFile: |\n  /etc/x\ntext: |\n  a\n",
		"a\n-----BEGIN RSA PRIVATE KEY-----\ns3cret\nx\n-----END RSA PRIVATE KEY-----\nb": "a\n-----BEGIN RSA PRIVATE KEY-----\n***\n-----END RSA PRIVATE KEY-----\nb",
		"-----BEGIN PRIVATE KEY-----\ns3cret":                                             "-----BEGIN PRIVATE KEY-----\n***\n",
		"-----BEGIN CERTIFICATE-----\nopen\n-----END CERTIFICATE-----\n":                  "-----BEGIN CERTIFICATE-----\nopen\n-----END CERTIFICATE-----\n",
		"The operator, its tokens and keys.":                                              "The operator, its tokens and keys.",
	} {
		if got := hideCredentials(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	object := yamlTree(t, `{kind: Pod, spec: {containers: [{args: [--user, me, --password, s3cret, --token=s3cret], command: [sh, -c, "login --password=s3cret"], env: [{name: U, value: "http://u:s3cret@h"}]}]}}`)
	wantYAML(t, "a Pod", MaskObject(object),
		`{kind: Pod, spec: {containers: [{args: [--user, me, --password, "***", --token=***], command: [sh, -c, "login --password=***"], env: [{name: U, value: "http://u:***@h"}]}]}}`)
}

func mustTree(t testing.TB, v any) any {
	t.Helper()
	return yamlTree(t, mustText(t, v))
}

func mustText(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	wantError(t, err)
	return string(text)
}

// D40, D41: what who edits a value of the ConfigMap must know of it.
func TestMarkedAndInSecret(t *testing.T) {
	section := secretSection(t, "", "{admin: {hash: above}, plain: [1], extra: {open: null}}")
	for path, want := range map[string]struct{ marked, inSecret bool }{
		"":            {marked: true},
		"plain":       {inSecret: true},
		"plain 0":     {inSecret: true},
		"admin":       {marked: true},
		"admin hash":  {marked: true, inSecret: true},
		"admin user":  {},
		"vault x y":   {marked: true},
		"extra open":  {inSecret: true},
		"extra other": {},
		"users 0 pin": {marked: true},
		// A list is stored as a whole.
		"users 0 name": {marked: true},
		"other":        {},
	} {
		at := strings.Fields(path)
		if got := section.Secrets().Marked(at); got != want.marked {
			t.Errorf("%q: marked is %t", path, got)
		}
		if got := section.Secrets().Stored(at); got != want.inSecret {
			t.Errorf("%q: in the Secret is %t", path, got)
		}
	}
}

// J7: of Kubernetes objects the content of Secrets is hidden, and what looks like a secret in others; names and
// references, which people look for, are not.
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

// D38, J9: one list of names decides what is a secret, in values, in objects, and in JSON and YAML inside of a
// ConfigMap.
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
	for what, v := range map[string]any{"values": hidden, "config": section.Secrets().Hide(section.Config()), "patches": section.Saved(false), "leaves": leaves} {
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
	got, want := after.Diff(before), []string{"m.a", "m.b", "m.c.y", "m.fromConfig", "m.list"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
