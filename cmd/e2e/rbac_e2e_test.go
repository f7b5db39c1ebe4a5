package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/testkit/devclustertest"
)

const account = "rbac-account" // of the operator in these tests

// examples makes a fixture whose modules are those of examples/.
func examples(t *testing.T) *fixture {
	t.Helper()
	h := newFixture(t, "the examples\n")
	for _, dir := range []string{"modules", "global-hooks"} {
		must(h.t, os.CopyFS(h.path(dir), os.DirFS(filepath.Join("..", "..", "examples", dir))))
	}
	return h
}

// generated are the roles that 'rbac generate' prints for a fixture.
func (h *fixture) generated(args ...string) []*unstructured.Unstructured {
	h.t.Helper()
	name := "rbac-" + h.namespace // roles of the whole cluster are the whole cluster's
	cmd := exec.Command(program(), append([]string{"rbac", "generate", "--service-account", account, "--name", name}, args...)...)
	cmd.Env = h.environment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("rbac generate: %v\n%s", err, stderr.String())
	}
	return objectsIn(h.t, out)
}

func objectsIn(t testing.TB, text []byte) (all []*unstructured.Unstructured) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var u unstructured.Unstructured
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		if u.Object != nil {
			all = append(all, &u)
		}
	}
}

// apply writes objects as an administrator, or only asks whether that would work.
func (h *fixture) apply(objects []*unstructured.Unstructured, dryRun bool) {
	h.t.Helper()
	config := devclustertest.Start(h.t).RESTConfig()
	client, err := dynamic.NewForConfig(config)
	must(h.t, err)
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	must(h.t, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	options := metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	for _, u := range objects {
		kind := u.GroupVersionKind()
		m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		must(h.t, err)
		var api dynamic.ResourceInterface = client.Resource(m.Resource)
		if u.GetNamespace() != "" {
			api = client.Resource(m.Resource).Namespace(u.GetNamespace())
		}
		body, err := json.Marshal(u)
		must(h.t, err)
		if _, err := api.Patch(h.ctx, u.GetName(), types.ApplyPatchType, body, options); err != nil {
			h.t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
		if u.GetNamespace() == "" && !dryRun {
			h.t.Cleanup(func() { _ = api.Delete(context.Background(), u.GetName(), metav1.DeleteOptions{}) }) // the cluster ends with the tests
		}
	}
	if !dryRun {
		h.awaitRoles(objects)
	}
}

// awaitRoles waits until all roles are in force, of which the API server hears by watches: by the first rule of each.
func (h *fixture) awaitRoles(objects []*unstructured.Unstructured) {
	h.t.Helper()
	roles := map[string]rbacv1.ClusterRole{} // by kind, namespace and name; a Role has the same rules
	convert := func(u *unstructured.Unstructured, to any) {
		must(h.t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, to))
	}
	for _, u := range objects {
		if kind := u.GetKind(); kind == "Role" || kind == "ClusterRole" {
			var role rbacv1.ClusterRole
			convert(u, &role)
			roles[kind+u.GetNamespace()+"/"+u.GetName()] = role
		}
	}
	for _, u := range objects {
		var binding rbacv1.RoleBinding // that of the whole cluster has no namespace
		switch u.GetKind() {
		case "RoleBinding", "ClusterRoleBinding":
			convert(u, &binding)
		default:
			continue
		}
		key := binding.RoleRef.Kind + "/" + binding.RoleRef.Name
		if binding.RoleRef.Kind == "Role" {
			key = binding.RoleRef.Kind + binding.Namespace + "/" + binding.RoleRef.Name
		}
		for _, rule := range roles[key].Rules {
			if len(rule.Resources) == 0 {
				continue
			}
			resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
			name := ""
			if len(rule.ResourceNames) > 0 {
				name = rule.ResourceNames[0]
			}
			h.awaitAllowed(account, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: binding.Namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Name: name,
			}})
			break
		}
	}
}

// awaitAllowed waits until a ServiceAccount of the fixture may do something.
func (h *fixture) awaitAllowed(account string, what authorizationv1.SubjectAccessReviewSpec) {
	h.t.Helper()
	what.User = "system:serviceaccount:" + h.namespace + ":" + account
	h.eventually("the rights of "+account, func() error {
		review, err := h.client.AuthorizationV1().SubjectAccessReviews().Create(h.ctx, &authorizationv1.SubjectAccessReview{Spec: what}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("%v %v: %s", what.ResourceAttributes, what.NonResourceAttributes, review.Status.Reason)
		}
		return err
	})
}

// become makes the ServiceAccount of the operator and hands the fixture its token: from
// now on operator and hooks may do what its roles say, and nothing more.
func (h *fixture) become() {
	h.t.Helper()
	h.kubeconfig = h.serviceAccount(account)
}

// With what 'rbac generate' prints, and the token of the ServiceAccount, all examples
// converge; their hooks may do what they watch for. Issue 8, "Proof".
func TestExamplesConvergeWithGeneratedRoles(t *testing.T) {
	h := examples(t)
	h.apply(h.generated(), false)
	h.become()
	o := h.start("ADDON_OPERATOR_POD=pod").ready() // as in a cluster: it takes its lease, too
	for _, release := range []string{"prometheus", "grafana", "backup"} {
		h.awaitRevisions(release, "1:deployed")
	}
	if password := h.secretData()["grafana"]; !strings.Contains(password, "adminPassword") || h.config() != nil {
		t.Errorf("the hook of grafana could not save its password in the Secret: %v", h.config())
	}
	// A hook that calls kubectl may write ConfigMaps because charts of others do.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "backup-s3-credentials"}, StringData: map[string]string{"a": "b"}}
	must(t, second(h.client.CoreV1().Secrets(h.namespace).Create(h.ctx, secret, metav1.CreateOptions{})))
	h.until("the backup", func() bool { return h.configMap("backup-status") != nil })
	h.setConfig(map[string]string{"grafanaEnabled": "false"})
	h.awaitRevisions("grafana", "") // it may delete, too
	// Deleted objects are looked for each minute without the rules of --watch-charts, and
	// the log says so; nothing else is missing.
	if n, watches := o.count("forbidden"), o.count("forbidden", "at the cluster scope", "watch"); n != watches {
		t.Errorf("%d lines of the log say forbidden, %d of them are about watches of charts", n, watches)
	}
}

// Without a chart that asks for more, the operator may touch one ConfigMap and one Lease, its
// own: it makes, reads, watches and changes them, and no others of their kinds. L6.
func TestBaseRolesNameTheirObjects(t *testing.T) {
	h := newFixture(t, `a hook that writes config values
-- modules/values.yaml --
workEnabled: true
-- modules/010-work/hooks/count.sh --
#!/usr/bin/env bash
if [[ $1 == --config ]]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
n=$(jq '.work.n // 0' "$CONFIG_VALUES_PATH")
echo '[{"op": "add", "path": "/work/n", "value": '$((n + 1))'}]' >"$CONFIG_VALUES_JSON_PATCH_PATH"
`)
	names := []string{"ADDON_OPERATOR_CONFIG_MAP=values-of-its-own", "ADDON_OPERATOR_POD=pod"}
	config := func(n string) {
		h.t.Helper()
		h.shows("the config values of "+n, func() string { return strings.TrimSpace(h.configMap("values-of-its-own")["work"]) + "\n" }, ": "+n+"\n")
	}
	h.apply(h.generated("--config-map=values-of-its-own"), false)
	h.become()
	for _, n := range []string{"1", "2"} { // made, and changed
		o := h.start(names...).ready()
		config(n)
		o.expect("this replica leads")
		maps := h.client.CoreV1().ConfigMaps(h.namespace)
		must(t, second(maps.Patch(h.ctx, "values-of-its-own", types.MergePatchType, []byte(`{"data": {"unknown`+n+`": "a: b"}}`), metav1.PatchOptions{})))
		o.expect("unknown" + n) // it watches
		if n := o.count("forbidden"); n > 0 {
			t.Errorf("%d lines of the log say forbidden", n)
		}
		if code := o.terminate(); code != 0 || o.count("could not be released") > 0 {
			t.Errorf("exit code %d, or the lease was not given back", code)
		}
	}
	access, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	must(t, err)
	operator, err := kubernetes.NewForConfig(access)
	must(t, err)
	h.setConfig(map[string]string{"other": "x"})
	_, errGet := operator.CoreV1().ConfigMaps(h.namespace).Get(h.ctx, "addon-operator", metav1.GetOptions{})
	_, errList := operator.CoreV1().ConfigMaps(h.namespace).List(h.ctx, metav1.ListOptions{})
	_, errLease := operator.CoordinationV1().Leases(h.namespace).List(h.ctx, metav1.ListOptions{})
	_, errOther := operator.CoordinationV1().Leases("kube-system").Get(h.ctx, "addon-operator-leader-election", metav1.GetOptions{})
	for what, err := range map[string]error{"read another ConfigMap": errGet, "list all": errList, "list all leases": errLease, "read a lease elsewhere": errOther} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
}

// With one rule removed the state on the debug address says which verb on which resource is
// missing. Issue 8, "Proof".
func TestStateNamesTheMissingRule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		group, resource string
		says            []string
	}{
		"watch of a hook":    {"storage.k8s.io", "storageclasses", []string{"forbidden", `cannot list resource "storageclasses"`, "cluster scope"}},
		"object of a chart":  {"apps", "deployments", []string{"module prometheus: starting", "BACKOFF", "cannot ", `resource "deployments" in API group "apps"`}},
		"cronjob of a chart": {"batch", "cronjobs", []string{"module backup: starting", "BACKOFF", "cannot ", `resource "cronjobs" in API group "batch"`}},
		"granted rules":      {"", "pods", []string{"module prometheus: starting", "BACKOFF", "clusterroles.rbac", `Resources:["pods"], Verbs:["get" "list" "watch"]`}},
		"the ConfigMap":      {"", "configmaps", []string{"not ready: the ConfigMap cannot be read", `cannot get resource "configmaps"`}},
		"the lease":          {"coordination.k8s.io", "leases", []string{"not ready: standby; it cannot compete for the lease", `cannot get resource "leases"`}},
	} {
		t.Run(name, func(t *testing.T) {
			h := examples(t)
			h.apply(without(t, h.generated(), c.group, c.resource), false)
			h.become()
			var env []string
			if c.resource == "leases" {
				env = append(env, "ADDON_OPERATOR_POD=pod")
			}
			o := h.start(env...)
			h.shows("the state", func() string {
				_, body := get("http://" + o.debug + "/readyz?verbose")
				return body
			}, c.says...)
		})
	}
}

// without removes a resource from all rules; it must have been in one.
func without(t *testing.T, objects []*unstructured.Unstructured, group, resource string) []*unstructured.Unstructured {
	t.Helper()
	removed := 0
	for _, u := range objects {
		rules, ok, err := unstructured.NestedSlice(u.Object, "rules")
		must(t, err)
		if !ok {
			continue
		}
		var kept []any
		for _, r := range rules {
			rule := r.(map[string]any)
			if groups, _, _ := unstructured.NestedStringSlice(rule, "apiGroups"); slices.Contains(groups, group) {
				all, _, _ := unstructured.NestedStringSlice(rule, "resources")
				rest := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == resource })
				removed += len(all) - len(rest)
				if len(rest) == 0 {
					continue
				}
				must(t, unstructured.SetNestedStringSlice(rule, rest, "resources"))
			}
			kept = append(kept, rule)
		}
		must(t, unstructured.SetNestedSlice(u.Object, kept, "rules"))
	}
	if removed == 0 {
		t.Fatalf("no rule is about %s.%s", resource, group)
	}
	return objects
}

// The rules are the same whether the kinds come from the table or from the cluster.
func TestKindsOfTheClusterGiveTheSameRules(t *testing.T) {
	h := examples(t)
	read := func(objects []*unstructured.Unstructured) (all []rbacv1.PolicyRule) {
		for _, u := range objects {
			var r rbacv1.ClusterRole
			data, err := json.Marshal(u)
			if err == nil {
				err = json.Unmarshal(data, &r)
			}
			must(t, err)
			all = append(all, r.Rules...)
		}
		return all
	}
	online, offline := fmt.Sprint(read(h.generated())), fmt.Sprint(read(h.generated("--offline")))
	if online != offline {
		t.Errorf("with the cluster:\n%s\nwithout:\n%s", online, offline)
	}
}

// A Pod of the Deployment is admitted where the restricted profile is enforced.
func TestPodIsAdmittedWithTheRestrictedProfile(t *testing.T) {
	h := newFixture(t, "nothing\n")
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	must(t, second(h.client.CoreV1().Namespaces().Patch(h.ctx, h.namespace, types.MergePatchType, patch, metav1.PatchOptions{})))
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "manifests", "addon-operator.yaml"))
	must(t, err)
	for _, u := range objectsIn(t, text) {
		if u.GetKind() != "Deployment" {
			continue
		}
		template, _, _ := unstructured.NestedMap(u.Object, "spec", "template")
		pod := &unstructured.Unstructured{Object: template}
		pod.SetAPIVersion("v1")
		pod.SetKind("Pod")
		pod.SetName("operator")
		pod.SetNamespace(h.namespace)
		must(t, unstructured.SetNestedField(pod.Object, "default", "spec", "serviceAccountName"))
		h.apply([]*unstructured.Unstructured{pod}, true)
		// A Pod that violates the standard is refused.
		loose := pod.DeepCopy()
		unstructured.RemoveNestedField(loose.Object, "spec", "securityContext", "seccompProfile")
		var p corev1.Pod
		data, err := json.Marshal(loose)
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		must(t, err)
		if _, err := h.client.CoreV1().Pods(h.namespace).Create(h.ctx, &p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			t.Errorf("a Pod without seccomp is admitted: %v", err)
		}
	}
}

// With the roles that 'rbac generate' prints a module whose release lies in a namespace of its own is installed,
// changed, healed and removed, and misses nothing. A namespace that is not there, for which the rules could not be
// applied, is named, with the module and what to do. H20.
func TestNamespaceOfModuleWithGeneratedRoles(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
webEnabled: true
-- modules/010-web/values.yaml --
web: {text: one}
-- modules/010-web/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {text: {{ .Values.web.text }}}}
-- modules/020-far/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: far}}
`)
	own, none := h.helm().namespace, h.namespace+"-none"
	h.write("modules/010-web/module.yaml", "namespace: "+own+"\n")
	h.write("modules/020-far/module.yaml", "namespace: "+none+"\n")
	administrator, roles := h.client, h.generated("--watch-charts")
	var now, later []*unstructured.Unstructured
	for _, role := range roles {
		if role.GetNamespace() == none {
			later = append(later, role)
		} else {
			now = append(now, role)
		}
	}
	h.apply(now, false)
	h.become()
	o := h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate").ready()
	inOwn := func(want string) {
		t.Helper()
		h.eventually("the ConfigMap of web has "+want, func() error {
			cm, err := h.client.CoreV1().ConfigMaps(own).Get(h.ctx, "web", metav1.GetOptions{})
			if err == nil && cm.Data["text"] != want {
				err = errNotYet
			}
			return err
		})
	}
	inOwn("one")
	h.setConfig(map[string]string{"web": "text: two"})
	inOwn("two")
	must(t, h.client.CoreV1().ConfigMaps(own).Delete(h.ctx, "web", metav1.DeleteOptions{}))
	inOwn("two")
	h.setConfig(map[string]string{"webEnabled": "false", "farEnabled": "true"})
	h.eventually("the end of the release", func() error {
		left, err := h.client.CoreV1().Secrets(own).List(h.ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
		if err == nil && len(left.Items) > 0 {
			err = errNotYet
		}
		return err
	})
	o.expect("ERROR", "module=far", "release far", "in namespace "+none, "forbidden", "'addon-operator rbac generate' prints all permissions that it needs")
	if n, known := o.count("forbidden"), o.count("forbidden", none); n != known {
		t.Errorf("%d lines of the log say forbidden, %d of them about the namespace that is missing", n, known)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: none}}
	must(t, second(administrator.CoreV1().Namespaces().Create(h.ctx, namespace, metav1.CreateOptions{})))
	h.apply(later, false)
	h.eventually("release far", func() error {
		_, err := h.client.CoreV1().ConfigMaps(none).Get(h.ctx, "far", metav1.GetOptions{})
		return err
	})
}

// The rules for charts of others, those in CHARTS or ours, are found without a cluster: also the kinds that templates
// and subcharts define. Rules with a * come first, with the chart that asks for them. A chart that does not render
// without values of its owner costs no other its rules.
func TestRulesOfForeignCharts(t *testing.T) {
	t.Parallel()
	var all []*foreignChart
	if dir := os.Getenv(chartsVariable); dir != "" {
		all = foreignCharts(t, dir)
	} else {
		all = ownCharts(t)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("global-hooks/values.yaml", "")
	write("modules/990-needy/templates/a.yaml", `{{ required "the password is missing" .Values.needy.password }}`)
	renders := map[string]bool{}
	for i, c := range all {
		if c.refused != "" {
			continue
		}
		root := "modules/" + strconv.Itoa(i+1) + "-" + c.name
		must(t, os.CopyFS(filepath.Join(dir, root, "chart"), os.DirFS(c.dir)))
		write(root+"/values.yaml", yamlOf(map[string]any{c.key: c.values}))
		renders[c.name] = len(objectsOf(c.rendered)) > 0
	}
	cmd := exec.Command(program(), "rbac", "generate", "--offline", "--partial", "--modules-dir", filepath.Join(dir, "modules"), "--global-hooks-dir", filepath.Join(dir, "global-hooks"))
	var out, problems bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, &out, &problems
	if err := cmd.Run(); err == nil || !strings.Contains(problems.String(), "module needy: ") {
		t.Errorf("%v: %s", err, &problems)
	}
	rules := out.String()
	head, _, _ := strings.Cut(rules, "\n---\n")
	if !strings.Contains(head, "# These rules are INCOMPLETE:\n") || !strings.Contains(head, "module needy: ") {
		t.Errorf("the head does not say what is missing:\n%s", head)
	}
	for name, has := range renders { // public charts grant so much in the whole cluster that others need no rules of their own
		if has && os.Getenv(chartsVariable) == "" && !strings.Contains(rules, "# chart of module "+name+"\n") && !strings.Contains(problems.String(), "module "+name+": ") {
			t.Errorf("no rules for module %s", name)
		}
	}
	if os.Getenv(chartsVariable) != "" {
		t.Logf("%s\n%s", head, &problems)
		return
	}
	if strings.Count(head, "module ") > 1 || strings.Count(rules, "apiGroups: [\"*\"]")+strings.Count(rules, "resources: [\"*\"]") > 1 {
		t.Errorf("more is missing, or wide, than should be:\n%s", rules)
	}
	expectAll(t, rules,
		"\nrules:\n# chart of module workloads grants it with ClusterRole addon-operator\n", // first
		`resources: ["probes", "rules"]`, `resources: ["bulks0`, // kinds of templates, and of a subchart of a subchart
	)
}
