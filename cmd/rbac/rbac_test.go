package rbac

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"addon-operator/cmd/cli"
)

// variables is an environment that is not the one of this process.
type variables map[string]string

func (v variables) lookup(name string) (string, bool) {
	value, ok := v[name]
	return value, ok
}

// commanded runs a command line.
func commanded(env variables, args ...string) (output string, err error) {
	return commandedIn(context.Background(), env, args...)
}

func commandedIn(ctx context.Context, env variables, args ...string) (output string, err error) {
	root, c := cli.Root("test", env.lookup)
	root.AddCommand(Command(c))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(args)
	err = root.ExecuteContext(ctx)
	return out.String(), err
}

// laidOut writes the files of an archive and returns the options that find them.
func laidOut(t *testing.T, archive string) (dir string, args []string) {
	t.Helper()
	dir = t.TempDir()
	for _, file := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, file.Name)
		mode := os.FileMode(0o644)
		if bytes.HasPrefix(file.Data, []byte("#!")) {
			mode = 0o755
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, file.Data, mode))
	}
	for _, name := range []string{"modules", "global-hooks"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	return dir, []string{"rbac", "generate", "--modules-dir", filepath.Join(dir, "modules"), "--global-hooks-dir", filepath.Join(dir, "global-hooks")}
}

// ruled generates and reads the rules back, one line for each, without those of the base.
func ruled(t *testing.T, output string) string {
	t.Helper()
	var lines []string
	for document := range strings.SplitSeq(output, "\n---\n") {
		var r rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &r); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		for _, one := range r.Rules {
			lines = append(lines, strings.TrimSpace(strings.Join([]string{
				r.Namespace, strings.Join(one.APIGroups, ","), strings.Join(one.Resources, ","), strings.Join(one.ResourceNames, ","), strings.Join(one.Verbs, ","),
			}, " | ")))
		}
	}
	return strings.Join(lines, "\n")
}

const hookOf = "#!/bin/sh\necho '{\"configVersion\":\"v1\",\"kubernetes\":[BINDING]}'\n"

const all7 = "create,delete,get,list,patch,update,watch"

func TestRulesOfModules(t *testing.T) {
	for name, c := range map[string]struct{ archive, says string }{
		"a binding in all namespaces": {
			"-- modules/a/hooks/h.sh --\n" + strings.Replace(hookOf, "BINDING", `{"name":"p","kind":"po"}`, 1),
			"|  | pods |  | get,list,watch",
		},
		"a binding in one namespace": {
			"-- modules/a/hooks/h.sh --\n" + strings.Replace(hookOf, "BINDING", `{"kind":"Deployment","apiVersion":"apps/v1","namespace":{"nameSelector":{"matchNames":["dns"]}}}`, 1),
			"dns | apps | deployments |  | get,list,watch",
		},
		"a binding in namespaces by label": {
			"-- modules/a/hooks/h.sh --\n" + strings.Replace(hookOf, "BINDING", `{"kind":"Pod","namespace":{"labelSelector":{"matchLabels":{"a":"b"}}}}`, 1),
			"|  | namespaces,pods |  | get,list,watch",
		},
		"a global hook on a kind without namespace": {
			"-- global-hooks/h.sh --\n" + strings.Replace(hookOf, "BINDING", `{"kind":"nodes"}`, 1),
			"|  | nodes |  | get,list,watch",
		},
		"an object in another namespace": {
			"-- modules/a/templates/a.yaml --\napiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: other}",
			"other |  | services |  | " + all7,
		},
		"the items of a list": {
			"-- modules/a/templates/a.yaml --\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Service, metadata: {name: a, namespace: other}}]",
			"other |  | services |  | " + all7,
		},
		"the items of a list of one kind": {
			"-- modules/a/templates/a.yaml --\napiVersion: v1\nkind: ServiceList\nitems: [{apiVersion: v1, kind: Service, metadata: {name: a, namespace: other}}]",
			"other |  | services |  | " + all7,
		},
		"an object of a hook of Helm with output": {
			"-- modules/a/templates/a.yaml --\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: a\n  annotations: {helm.sh/hook: pre-install, helm.sh/hook-output-log-policy: hook-succeeded}",
			"addons |  | pods/log |  | get",
		},
		"values decide what is rendered": {
			"-- modules/a/values.yaml --\na: {kind: Ingress}\n-- modules/a/templates/a.yaml --\napiVersion: networking.k8s.io/v1\nkind: {{ .Values.a.kind }}\nmetadata: {name: a}",
			"addons | networking.k8s.io | ingresses |  | " + all7,
		},
		"a role elsewhere is bound": {
			"-- modules/a/templates/a.yaml --\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}",
			"| rbac.authorization.k8s.io | clusterroles | cluster-admin | bind",
		},
		"a role that aggregates": {
			"-- modules/a/templates/a.yaml --\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\naggregationRule: {clusterRoleSelectors: []}",
			"| rbac.authorization.k8s.io | clusterroles | a | escalate",
		},
		"a role of a namespace": {
			"-- modules/a/templates/a.yaml --\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrules: [{apiGroups: [\"*\"], resources: [\"*\"], verbs: [\"*\"]}]",
			"addons | * | * |  | *",
		},
		"a definition and an object of its kind": {
			"-- modules/a/crds/c.yaml --\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.acme.io}\n" +
				"spec: {group: acme.io, scope: Namespaced, names: {plural: widgets, kind: Widget}, versions: [{name: v1, served: true}]}\n" +
				"-- modules/a/templates/a.yaml --\napiVersion: acme.io/v1\nkind: Widget\nmetadata: {name: a}",
			"addons | acme.io | widgets |  | " + all7,
		},
		"the right to install a definition": {
			"-- modules/a/crds/c.yaml --\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.acme.io}\nspec: {group: acme.io}",
			"| apiextensions.k8s.io | customresourcedefinitions | widgets.acme.io | patch",
		},
		"a definition of a subchart": {
			"-- modules/a/Chart.yaml --\n{apiVersion: v2, name: a, version: 1.0.0, dependencies: [{name: on, version: 1.0.0}, {name: off, version: 1.0.0, condition: a.more}]}\n" +
				"-- modules/a/values.yaml --\na: {more: false}\n-- modules/a/charts/off/Chart.yaml --\n{apiVersion: v2, name: off, version: 1.0.0}\n" +
				"-- modules/a/charts/off/crds/c.yaml --\nkind: CustomResourceDefinition\nmetadata: {name: others.acme.io}\n" +
				"-- modules/a/charts/on/Chart.yaml --\n{apiVersion: v2, name: on, version: 1.0.0}\n" +
				"-- modules/a/charts/on/crds/c.yaml --\nkind: CustomResourceDefinition\nmetadata: {name: widgets.acme.io}\n",
			"| apiextensions.k8s.io | customresourcedefinitions | widgets.acme.io | patch",
		},
		"a chart that looks something up": {
			"-- modules/a/templates/a.yaml --\n{{- $nodes := lookup \"v1\" \"Node\" \"\" \"\" }}",
			"|  | nodes |  | list",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, args := laidOut(t, c.archive)
			out, err := commanded(nil, append(args, "--namespace=addons")...)
			must(t, err)
			if got := ruled(t, out); !strings.Contains("\n"+got+"\n", "\n"+c.says+"\n") {
				t.Errorf("no %q in\n%s", c.says, got)
			}
		})
	}
}

// M1: files in crds/ that are no definitions by their names are not read here either.
func TestRulesSkipFilesThatAreNoDefinitions(t *testing.T) {
	const text = "definitions: [are, described: here\n"
	_, args := laidOut(t, "-- modules/a/crds/doc-ru-c.yaml --\n"+text+"-- modules/a/crds/_notes.yaml --\n"+text+"-- modules/a/crds/.hidden/c.yaml --\n"+text)
	if _, err := commanded(nil, args...); err != nil {
		t.Error(err)
	}
	if _, err := commanded(nil, append(args, "--crd-filters=doc-")...); err == nil || !strings.Contains(err.Error(), "_notes.yaml") {
		t.Errorf("with another filter: %v", err)
	}
}

func TestRulesWithValues(t *testing.T) {
	dir, args := laidOut(t, "-- modules/a/templates/a.yaml --\n{{- if .Values.global.found }}\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\n{{- end }}\n-- v.yaml --\nglobal: {found: true}")
	for _, c := range []struct {
		more []string
		want bool
	}{{nil, false}, {[]string{"--values", filepath.Join(dir, "v.yaml")}, true}} {
		out, err := commanded(nil, append(args, c.more...)...)
		must(t, err)
		if got := strings.Contains(out, "ingresses"); got != c.want {
			t.Errorf("with %v the Ingress is ruled: %t", c.more, got)
		}
	}
}

func TestRulesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		archive string
		more    []string
		usage   bool
		says    string
	}{
		"an unknown kind of a binding": {"-- modules/a/hooks/h.sh --\n" + strings.Replace(hookOf, "BINDING", `{"kind":"Wigdet"}`, 1), nil, false, "a/hooks/h.sh watches (binding kubernetes): neither Kubernetes nor a module has the kind Wigdet"},
		"an unknown kind of a chart":   {"-- modules/a/templates/a.yaml --\napiVersion: acme.io/v1\nkind: Widget\nmetadata: {name: a}", nil, false, "Widget"},
		"a chart that cannot render":   {"-- modules/a/templates/a.yaml --\n{{ fail \"no zone\" }}", nil, false, "no zone"},
		"a definition that is none":    {"-- modules/a/crds/a.yaml --\nkind: [", nil, false, "a/crds/a.yaml"},
		"a chart without a subchart":   {"-- modules/a/Chart.yaml --\n{apiVersion: v2, name: a, version: 0.1.0, dependencies: [{name: sub, version: 0.1.0}]}", nil, false, "declares the dependency sub"},
		"a hook without a config":      {"-- modules/a/hooks/h.sh --\n#!/bin/sh\nexit 3", nil, false, "a/hooks/h.sh"},
		"no such values":               {"", []string{"--values", "/nowhere.yaml"}, false, "nowhere.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, args := laidOut(t, c.archive)
			out, err := commanded(nil, append(args, c.more...)...)
			if err == nil || errors.As(err, new(cli.UsageError)) != c.usage || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s", err, c.says)
			}
			if out != "" {
				t.Errorf("rules are printed, although some are missing:\n%s", out)
			}
			if out, err = commanded(nil, append(args, append(c.more, "--partial")...)...); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("with --partial: got %v, want %s", err, c.says)
			}
			if c.more == nil && (!strings.Contains(out, "# These rules are INCOMPLETE:\n# ") || !strings.Contains(ruled(t, out), "configmaps")) {
				t.Errorf("the rules of the others are not there, or nothing says that some are missing:\n%s", out)
			}
		})
	}
}

// A command that is interrupted prints no rules: those of what it has not come to are missing.
func TestInterruptedPrintsNoRules(t *testing.T) {
	dir, args := laidOut(t, "-- modules/a/hooks/h.sh --\n#!/bin/sh\necho > FIFO\nexec sleep 1000\n")
	fifo, hook := filepath.Join(dir, "fifo"), filepath.Join(dir, "modules/a/hooks/h.sh")
	text, err := os.ReadFile(hook)
	if err == nil {
		err = errors.Join(os.WriteFile(hook, bytes.Replace(text, []byte("FIFO"), []byte(fifo), 1), 0o755), syscall.Mkfifo(fifo, 0o600))
	}
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(fifo) // until the hook runs
		cancel()
	}()
	if out, err := commandedIn(ctx, nil, append(args, "--partial")...); !errors.Is(err, context.Canceled) || out != "" {
		t.Errorf("got %v and\n%s", err, out)
	}
}

// J11: with secure metrics the operator may ask who asks, and the chart grants that; so does 'rbac generate', when it
// has the option.
func TestRulesOfSecureMetrics(t *testing.T) {
	for env, want := range map[string]bool{"": false, "true": true} {
		_, args := laidOut(t, "")
		out, err := commanded(variables{"ADDON_OPERATOR_SECURE_METRICS": env}, args...)
		must(t, err)
		rules := ruled(t, out)
		for _, rule := range []string{"authentication.k8s.io | tokenreviews |  | create", "authorization.k8s.io | subjectaccessreviews |  | create"} {
			if strings.Contains(rules, rule) != want {
				t.Errorf("option %q:\n%s", env, rules)
			}
		}
	}
}

// A rule with a * is that of who asks for it: others have their own rules, also in a namespace.
func TestWideRulesStandAlone(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	all := roles([]demand{{"", pods, "", []string{"*"}, "greedy"}, {"", pods, "", []string{"get"}, "modest"}, {"a", pods, "", []string{"list"}, "local"}, {"a", pods, "", []string{"*"}, "local and greedy"}})
	var out bytes.Buffer
	must(t, (manifest{name: "n", namespace: "ns", account: "sa"}).write(&out, all))
	if got, want := ruled(t, out.String()), "|  | pods |  | *\n|  | pods |  | get\na |  | pods |  | list"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What the whole cluster grants is not granted again, and one rule says for whom it is.
func TestRolesAreSummedUp(t *testing.T) {
	pods := func(namespace, why string, verbs ...string) demand {
		return demand{namespace: namespace, resource: schema.GroupResource{Resource: "pods"}, verbs: verbs, why: why}
	}
	var out bytes.Buffer
	all := roles([]demand{pods("a", "one", "get"), pods("", "two", "list", "get"), pods("a", "three", "delete"), pods("b", "four\nlines", "get", "list"), pods("a", "three", "delete")})
	must(t, (manifest{"n", "ns", "sa", nil}).write(&out, all))
	if got, want := ruled(t, out.String()), "|  | pods |  | get,list\na |  | pods |  | delete"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, want := range []string{"\n# two\n- apiGroups", "\n# three\n- apiGroups", "{name: \"ns:n\"}\n", "kind: RoleBinding\nmetadata: {name: \"n\", namespace: \"a\"}\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestWriteErrorIsTold(t *testing.T) {
	r, w := io.Pipe()
	_ = r.Close()
	if err := (manifest{"n", "ns", "sa", nil}).write(w, roles(baseDemands(&cli.Config{Namespace: "ns"}))); err == nil {
		t.Error("an error of the writer is lost")
	}
}

// Names are those of charts: none is read as something else.
func TestNamesAreQuoted(t *testing.T) {
	for _, text := range []string{"", "*", "pods", "yes", "null", "1e3", "a:b", "0x1", "a: b", "- a", "é\n", "a.b/c", "]\n- b"} {
		var back []string
		if err := yaml.Unmarshal([]byte(sequence([]string{text, "x"})), &back); err != nil || len(back) != 2 || back[0] != text {
			t.Errorf("%q comes back as %q, %v", text, back, err)
		}
	}
}

// The definition of a kind may lie in the templates of another module, which may come later, or in those of a
// subchart, and show only when another kind is there. Nothing but files is asked. Rules with a * come first, with who
// asks for them.
func TestKindsOfTemplates(t *testing.T) {
	const crd = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: NAMEs.example.com}, spec: {group: example.com, scope: SCOPE, names: {plural: NAMEs, kind: NAME}, versions: [{name: v1, served: true}]}}"
	things := strings.NewReplacer("NAME", "thing", "SCOPE", "Namespaced").Replace(crd)
	others := strings.NewReplacer("NAME", "other", "SCOPE", "Cluster").Replace(crd)
	_, args := laidOut(t, `
-- modules/010-uses/templates/a.yaml --
{apiVersion: example.com/v1, kind: thing, metadata: {name: a}}
---
{apiVersion: example.com/v1, kind: other, metadata: {name: a}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: wide}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]}
-- modules/020-brings/chart/Chart.yaml --
{apiVersion: v2, name: brings, version: 0.1.0}
-- modules/020-brings/chart/charts/crds/Chart.yaml --
{apiVersion: v2, name: crds, version: 0.1.0}
-- modules/020-brings/chart/charts/crds/templates/crd.yaml --
`+things+`
-- modules/030-later/templates/crd.yaml --
{{ if .Capabilities.APIVersions.Has "example.com/v1/thing" }}
`+others+`
{{ end }}
`)
	out, err := commanded(variables{}, append(args, "--offline", "--namespace", "addons")...)
	must(t, err)
	rules := ruled(t, out)
	for _, want := range []string{"addons | example.com | things |  | " + all7, "| example.com | others |  | " + all7, "| * | * |  | *"} {
		if !strings.Contains(rules, want) {
			t.Errorf("the rules lack %s:\n%s", want, rules)
		}
	}
	if !strings.Contains(out, "\nrules:\n# chart of module uses grants it with ClusterRole wide\n- apiGroups: [\"*\"]\n") {
		t.Errorf("nothing says who asks for everything:\n%s", out)
	}
	if first, _, _ := strings.Cut(rules, "\n"); !strings.HasPrefix(first, "| * | *") {
		t.Errorf("the first rule is %q", first)
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
