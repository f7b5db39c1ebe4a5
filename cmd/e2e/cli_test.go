package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/testkit/devclustertest"
)

// ask runs a command as a person would in the Pod, over the unix socket; want are parts of
// what it prints.
func (o *operator) ask(command string, want ...string) string {
	o.fixture.t.Helper()
	out, err := o.bySocket(command)
	if err != nil || !containsAll(out, want) {
		o.fixture.t.Errorf("%s: %v, want %q in\n%s", command, err, want, out)
	}
	return out
}

// refuse runs a command that must fail, with these parts in what it prints.
func (o *operator) refuse(command string, want ...string) {
	o.fixture.t.Helper()
	if out, err := o.bySocket(command); err == nil || !containsAll(out, want) {
		o.fixture.t.Errorf("%s: %v, want %q in\n%s", command, err, want, out)
	}
}

func (o *operator) bySocket(command string) (output string, err error) {
	in := *o
	in.env = append(slices.Clone(o.env), "DEBUG_HTTP_SERVER_ADDR=unix:"+o.fixture.socket())
	return in.run("", strings.Fields(command)...)
}

// Issue 8, point 4: a person looks into a running operator, from modules to manifests, and
// changes how much it logs. J4, J6.
func TestLookIntoARunningOperator(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
wellEnabled: true
-- modules/010-well/values.yaml --
well: {size: 1, password: s3cret}
-- modules/010-well/templates/all.yaml --
{apiVersion: v1, kind: Secret, metadata: {name: well}, stringData: {password: {{ .Values.well.password }}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: well}, data: {size: {{ .Values.well.size | quote }}}}
-- modules/010-well/hooks/watch.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "kubernetes": [{"name": "secrets", "kind": "Secret", "nameSelector": {"matchNames": ["well"]}, "namespace": {"nameSelector": {"matchNames": ["'"$NAMESPACE"'"]}}}]}'
fi
-- modules/020-off/README.md --
`)
	o := h.start("LOG_LEVEL=warn").ready()
	o.ask("module list", "well  10     ready", "off   20     disabled")
	o.ask("hook list", "010-well/hooks/watch.sh", "kubernetes", "secrets")
	o.ask("module values well", "size: 1", "password: '***'")
	o.ask("module values well --show-secrets", "s3cret")
	o.ask("module resource-monitor", h.namespace+"/ConfigMap/well", h.namespace+"/Secret/well", "No monitor")
	o.ask("queue list", `Queue "main" is empty.`)
	o.ask("raw /discovery", "/module/list")
	h.shows("the snapshot has the Secret", func() string { return o.ask("module snapshots well", "complete") }, "1\n")
	if out := o.ask("hook snapshots 010-well/hooks/watch.sh -o yaml", "kind: Secret"); strings.Contains(out, "czNjcmV0") {
		t.Errorf("the snapshot shows a secret:\n%s", out)
	}
	o.ask("module render well", "kind: ConfigMap", `size: "1"`, "password: '***'")
	o.ask("module render well --diff", "No differences from the deployed release, revision 1.")

	o.ask("config set log.level debug 10m", "log.level  debug  warn")
	o.ask("config list", "log.level  debug  warn")
	h.setConfig(map[string]string{"well": "password: other"})
	o.expect("release step") // at debug level
	h.awaitRevisions("well", "1:superseded 2:deployed")
	o.ask("why well", "module well: ", "because of ConfigMap")
	o.ask("status", "1 ready, 1 off\n", "converged")
	o.ask("status -o jsonpath={.namespace}", h.namespace+"\n")
	o.ask("wait well", "ready\n")
	o.refuse("wait off --timeout 1s", "off is disabled: no flag anywhere")
	h.setConfig(map[string]string{"well": "size: many\nsizee: 1\n: ["})
	h.awaitEvent("Warning Refused: ", onConfigMap)
	h.setConfig(map[string]string{"well": "size: 2"})
	h.awaitEvent("Normal Accepted: ", onConfigMap)
}

const twoModules = `
-- modules/values.yaml --
wellEnabled: true
-- modules/010-well/templates/one.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: well}}
-- modules/020-other/templates/one.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
`

// laptop runs the program as a person with a kubeconfig does, outside of the cluster.
type laptop struct {
	*fixture
	program    string
	kubeconfig string
}

// give runs a command and returns its output, or its errors when it fails.
func (l laptop) give(args ...string) (output string, failed bool) {
	l.t.Helper()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(l.ctx, l.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"HOME=" + l.dir, "KUBECONFIG=" + l.kubeconfig}, &out, &problems
	if cmd.Run() != nil {
		return problems.String(), true
	}
	return out.String(), false
}

// wants gives a command, which must print these texts.
func (l laptop) wants(command string, texts ...string) {
	l.t.Helper()
	output, failed := l.give(strings.Fields(command)...)
	for _, text := range texts {
		if failed || !strings.Contains(output, text) {
			l.t.Fatalf("%s (failed: %v) has no %q:\n%s", command, failed, text, output)
		}
	}
}

// fails gives a command, which must fail with this text.
func (l laptop) fails(command, text string) {
	l.t.Helper()
	if output, failed := l.give(strings.Fields(command)...); !failed || !strings.Contains(output, text) {
		l.t.Fatalf("%s (failed: %v) has no %q:\n%s", command, failed, text, output)
	}
}

// A person with a kubeconfig asks the operator in the cluster and changes its values, without kubectl: the Pod that
// leads is found, and its debug address is reached through the API server.
func TestAskedFromALaptop(t *testing.T) {
	t.Parallel()
	cluster := devclustertest.StartWithNode(t)
	h := fixtureOn(t, cluster, twoModules)
	l := laptop{h, program(), h.kubeconfig}
	l.fails("status -n "+h.namespace, "no operator runs in namespace "+h.namespace)

	one := h.start("ADDON_OPERATOR_POD=one", "ADDON_OPERATOR_HA=true", "ADDON_OPERATOR_CONFIG_MAP=custom", "DEBUG_UNIX_SOCKET=").ready()
	l.fails("status -n "+h.namespace, "is held by one, which is not a Pod there")
	h.operatorPod("one", one.debug)
	l.wants("status -n "+h.namespace, "1 ready, 1 off\nconverged; this replica is the leader one")
	l.wants("module list -n "+h.namespace, "other  20", "no flag anywhere")
	l.wants("values set otherEnabled true -n "+h.namespace, "otherEnabled: (none) -> true")
	if got := h.configMap("custom")["otherEnabled"]; got != "true" {
		t.Errorf("the ConfigMap that the operator names has %q", got)
	}
	l.wants("wait other --timeout 1m -n "+h.namespace, "ready")
	l.wants("values set otherEnabled false --dry-run -n "+h.namespace, "otherEnabled: true -> false")

	// The context says which namespace, and kubectl has the program as its own command.
	config, err := clientcmd.LoadFromFile(h.kubeconfig)
	must(t, err)
	config.Contexts[config.CurrentContext].Namespace = h.namespace
	l.kubeconfig = h.path("kubeconfig-with-namespace")
	must(t, clientcmd.WriteToFile(*config, l.kubeconfig))
	context := " --context " + config.CurrentContext
	l.wants("status"+context, "2 ready")
	l.wants("status", "2 ready") // that of the current context, as with kubectl
	l.wants("values unset otherEnabled --yes"+context, "otherEnabled: true -> (none)")
	l.fails("status --context nowhere", "nowhere")
	l.fails("status -n "+h.namespace+" --kubeconfig /nowhere/typo", "/nowhere/typo")
	l.fails("values set well.a 1 --kubeconfig /nowhere/typo", "/nowhere/typo")
	l.program = h.path("kubectl-addon")
	must(t, os.Symlink(program(), l.program))
	kubectl := exec.CommandContext(h.ctx, filepath.Join(h.tools, "kubectl"), "addon", "status")
	kubectl.Env = []string{"PATH=" + h.dir, "HOME=" + h.dir, "KUBECONFIG=" + l.kubeconfig}
	if output, err := kubectl.CombinedOutput(); err != nil || !strings.Contains(string(output), "ready") {
		t.Fatalf("kubectl addon status: %v\n%s", err, output)
	}
	l.wants("", "kubectl addon [command]")
	l.program = program()

	// Whoever leads answers.
	two := h.start("ADDON_OPERATOR_POD=two", "ADDON_OPERATOR_HA=true", "ADDON_OPERATOR_CONFIG_MAP=custom", "DEBUG_UNIX_SOCKET=")
	two.expect("standby begins")
	h.operatorPod("two", two.debug)
	one.terminate()
	two.expect("this replica leads") // a standby is ready, too
	two.ready()
	l.wants("status"+context, "the leader two")

	// Without a permission the error names it.
	anyone := l
	anyone.kubeconfig = h.serviceAccount("operator")
	status := "status -n " + h.namespace
	anyone.fails(status, `cannot get resource "leases"`)
	h.grant("find", rbacv1.PolicyRule{APIGroups: []string{"", "coordination.k8s.io"}, Resources: []string{"pods", "leases"}, Verbs: []string{"get"}})
	h.eventually("the right that is missing", func() error {
		if output, failed := anyone.give(strings.Fields(status)...); !failed || !strings.Contains(output, `resource "pods/portforward"`) {
			return errors.New(output)
		}
		return nil
	})
	h.grant("ask", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"get", "create"}})
	h.eventually("the rights to be in force", func() error {
		if output, failed := anyone.give(strings.Fields(status)...); failed {
			return errors.New(output)
		}
		return nil
	})

	// Nothing listens in the Pod of the leader.
	h.kubectl("-n", h.namespace, "delete", "pod", "two", "--wait")
	h.operatorPod("two", "127.0.0.1:"+freePort(t))
	l.fails(status, "no operator answers on Pod "+h.namespace+"/two")
}

// operatorPod makes the Pod of a replica, which the node of the cluster runs.
func (h *fixture) operatorPod(name, debug string) {
	h.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "addon-operator"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "none", Env: []corev1.EnvVar{{Name: "DEBUG_HTTP_SERVER_ADDR", Value: debug}}}}},
	}
	must(h.t, second(h.client.CoreV1().Pods(h.namespace).Create(h.ctx, pod, metav1.CreateOptions{})))
	h.kubectl("-n", h.namespace, "wait", "--for=condition=Ready", "pod/"+name, "--timeout=1m")
}
