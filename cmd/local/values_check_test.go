package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/cmd/cli"
)

// checked runs values check over files; cm.yaml is the proposed ConfigMap, secret.yaml the Secret.
func checked(t *testing.T, files map[string]string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "modules"), 0o755), os.MkdirAll(filepath.Join(dir, "global"), 0o755))
	args := []string{"values", "check", "--modules-dir", filepath.Join(dir, "modules"), "--global-hooks-dir", filepath.Join(dir, "global")}
	for name, text := range files {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		if name == "cm.yaml" {
			args = append(args, "-f", path)
		}
		if name == "secret.yaml" {
			args = append(args, "--secret", path)
		}
	}
	must(t, err)
	out, err := commanded(args...)
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	return out, err
}

// Issue 4, offline: files, schemas and a proposed ConfigMap without a cluster.
func TestCheckAccepts(t *testing.T) {
	big := "list:\n" + strings.Repeat("- a line of text that somebody needs\n", 1<<20/40)
	for name, files := range map[string]map[string]string{
		"no ConfigMap":   {"modules/010-dns/values.yaml": "dns: {a: 1}"},
		"a manifest":     {"modules/010-dns/values.yaml": "dns: {a: 1}", "cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: addon-operator}\ndata:\n  dns: |\n    a: 2\n"},
		"only data":      {"modules/010-dns/values.yaml": "dns: {a: 1}", "cm.yaml": "dns: |\n  a: 2\ndnsEnabled: 'true'\n"},
		"an empty one":   {"modules/010-dns/values.yaml": "dns: {a: 1}", "cm.yaml": "kind: ConfigMap\n"},
		"an unknown key": {"modules/010-dns/values.yaml": "dns: {a: 1}", "cm.yaml": "noModule: 'a: 1'\n"},
		"1 MiB of it":    {"modules/010-dns/values.yaml": "dns: {}", "cm.yaml": "dnsEnabled: 'true'\ndns: |\n  " + strings.ReplaceAll(big, "\n", "\n  ")},
		"a disabled module": { // D37
			"modules/010-dns/openapi/config-values.yaml": "{type: object, properties: {a: {type: integer}}}", "cm.yaml": "dns: 'a: text'\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := checked(t, files); !strings.HasPrefix(out, "The global values and the values of ") || !strings.Contains(out, " valid") || err != nil {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}

// D37: the modules that were not checked are not counted as valid.
func TestCheckCountsWhatItChecked(t *testing.T) {
	files := map[string]string{
		"modules/values.yaml":                        "dnsEnabled: true\n",
		"modules/010-dns/values.yaml":                "dns: {a: 1}",
		"modules/020-web/openapi/config-values.yaml": "{type: object, properties: {a: {type: integer}}}",
		"cm.yaml": "web: 'a: text'\n",
	}
	for _, c := range []struct{ file, text, want string }{
		{"modules/030-ask/values.yaml", "askEnabled: false", "the values of 1 module are valid; disabled, and not checked: 2 modules."},
		{"modules/030-ask/values.yaml", "askEnabled: true", "the values of 2 modules are valid; disabled, and not checked: 1 module."},
		{"cm.yaml", "webEnabled: 'true'\n", "the values of 3 modules are valid."},
	} {
		files[c.file] = c.text
		if out, err := checked(t, files); !strings.HasSuffix(out, c.want+"\n") || err != nil {
			t.Errorf("with %s: %q, %v", c.text, out, err)
		}
	}
}

// Issue 4, bad input: everything that is wrong is reported, with its file, key and path. What each room refuses is
// tested there.
func TestCheckRefuses(t *testing.T) {
	const on = "dnsEnabled: true\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"not camelCase":   {map[string]string{"modules/010-my-dns/x": "", "cm.yaml": "my-dns: 'a: 1'"}, []string{"ConfigMap key my-dns", "did you mean myDns?"}},
		"no text in data": {map[string]string{"modules/010-dns/x": "", "cm.yaml": "dns: {a: 1}\nother: 5"}, []string{"data.dns is not a string", "data.other is not a string", "vertical bar"}},
		"another kind":    {map[string]string{"modules/010-dns/x": "", "cm.yaml": "kind: Secret"}, []string{"kind is Secret, not ConfigMap"}},
		"no map":          {map[string]string{"modules/010-dns/x": "", "cm.yaml": "[]"}, []string{"it must be the manifest of a ConfigMap"}},
		"violations of several modules": {
			map[string]string{
				"modules/values.yaml": on + "webEnabled: true\nglobal: {size: many}\n", "modules/010-dns/openapi/config-values.yaml": "{type: object, required: [zone], properties: {zone: {type: string}, size: {type: integer}}}",
				"modules/020-web/openapi/config-values.yaml": "{type: object, properties: {password: {type: string, minLength: 9}}}",
				"global/openapi/config-values.yaml":          "{type: object, properties: {size: {type: integer}}}",
				"cm.yaml":                                    "dns: 'size: x'\nweb: 'password: s3cret'\n",
			},
			[]string{"dns.zone: is required", "dns.size: must be an integer, is a string", "web.password: must have at least 9 characters", "global.size: must be an integer", "010-dns/openapi/config-values.yaml"},
		},
		"a broken module and the values of another": {
			map[string]string{
				"modules/values.yaml": on + "webEnabled: true\n", "modules/010-dns/openapi/config-values.yaml": "type: objekt",
				"modules/020-web/openapi/config-values.yaml": "{type: object, properties: {size: {type: integer}}}", "modules/020-web/values.yaml": "web: {size: x}",
				"modules/030-db/values.yaml": "db: 5", "global/values.yaml": "", "cm.yaml": "webEnabled: 'yes and no'\ndns: 'a: ['\n",
			},
			[]string{"010-dns/openapi/config-values.yaml: /type", "030-db/values.yaml", "ConfigMap key dns", "ConfigMap key webEnabled"},
		},
		"values of one module, a schema of another": {
			map[string]string{
				"modules/values.yaml": "webEnabled: true\n", "modules/010-dns/openapi/config-values.yaml": "type: objekt",
				"modules/020-web/openapi/config-values.yaml": "{type: object, properties: {size: {type: integer}}}", "cm.yaml": "web: 'size: x'\n",
			},
			[]string{"010-dns/openapi/config-values.yaml: /type", "web.size: must be an integer"},
		},
		"what nobody means": {
			map[string]string{"modules/010-dns/enabled": "#!/bin/sh\n", "modules/010-dns/hooks/a.sh": "#!/bin/sh\n", "modules/020-dns/x": "", "global/g.sh": "#!/bin/sh\n"},
			[]string{"010-dns/enabled is not executable", "hooks/a.sh is not executable", "020-dns is ignored", "g.sh is not executable"},
		},
		"charts that cannot be installed": { // H21, A17
			map[string]string{
				"modules/010-dns/Chart.yaml": "{apiVersion: v2, name: dns, version: 0.1.0, dependencies: [{name: bind, version: 1.0.0}]}", "modules/020-web/templates/a.yaml": "", "modules/020-web/values.yaml": "web: {}\nother: &a [1, *a]\n",
				"modules/030-db/charts/db/Chart.yaml": "{apiVersion: v2, name: db, version: 0.1.0}",
			},
			[]string{"Chart.yaml declares the dependency bind, which is not in charts/; run 'helm dependency build 010-dns'", "load chart in 020-web", "030-db has charts/, but neither Chart.yaml nor templates/"},
		},
		"files and ConfigMap at once": {map[string]string{"modules/010-dns/values.yaml": "dns: 5", "cm.yaml": "a-b: x"}, []string{"010-dns/values.yaml", "ConfigMap key a-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := checked(t, c.files)
			var usage cli.UsageError
			if err == nil || errors.As(err, &usage) || out != "" {
				t.Fatalf("%q, %v", out, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %s", err, want)
				}
			}
			if strings.Contains(err.Error(), "modules/") {
				t.Errorf("a path is not relative to the directory of modules: %v", err)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

// D40: a password that lies only in the Secret is there, in data or stringData; what is wrong in
// it is named, and no text of it.
func TestCheckWithSecret(t *testing.T) {
	const schema = "{type: object, required: [password], properties: {password: {type: string, maxLength: 9, x-secret: true}, size: {type: integer}}}"
	for name, c := range map[string]struct{ secret, want string }{
		"none":                {"", "dns.password: is required"},
		"stringData":          {"kind: Secret\nstringData: {dns: 'password: hunter2'}\n", ""},
		"base64":              {"kind: Secret\ndata: {dns: cGFzc3dvcmQ6IGh1bnRlcjI=}\n", ""},
		"stringData wins":     {"kind: Secret\nstringData: {dns: 'password: hunter2'}\ndata: {dns: eDogMQ==}\n", ""},
		"not valid":           {"kind: Secret\nstringData: {dns: 'password: hunter2hunter2'}\n", "dns.password: must have at most 9"},
		"a flag":              {"kind: Secret\nstringData: {dnsEnabled: 'true'}\n", "key dnsEnabled of the Secret: flags and maintenance modes belong in the ConfigMap"},
		"another kind":        {"kind: ConfigMap\ndata: {dns: 'password: hunter2'}\n", "secret.yaml: it is not the manifest of a Secret"},
		"no base64":           {"kind: Secret\ndata: {dns: '!hunter2'}\n", "secret.yaml: it is not the manifest of a Secret"},
		"the list of another": {"- hunter2\n", "secret.yaml: it is not the manifest of a Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"modules/010-dns/openapi/config-values.yaml": schema, "cm.yaml": "dnsEnabled: 'true'\ndns: 'size: 1'\n"}
			if c.secret != "" {
				files["secret.yaml"] = c.secret
			}
			_, err := checked(t, files)
			if text := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.Contains(text, c.want) || strings.Contains(text, "hunter2") {
				t.Errorf("%s, want %q", text, c.want)
			}
		})
	}
}
