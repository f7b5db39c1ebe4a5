package e2e

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trouble is a problem of docs/troubleshooting.md that a test brings about.
type trouble struct {
	heading string   // the one that it stands below
	says    []string // the cause and the next step; NAMESPACE stands for that of the test
	after   func(h *fixture)
}

// troubles are problems that one operator has.
type troubles struct {
	files string
	start func(h *fixture) *operator
	all   []trouble
}

// Each problem of docs/troubleshooting.md is shown by status and on the live page, with its cause and with what to do
// next. J1, J18.
func TestStatusAndPageShowEachProblem(t *testing.T) {
	t.Parallel()
	for name, group := range allTroubles() {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, group.files)
			o := group.start(h)
			for _, p := range group.all {
				if p.after != nil {
					p.after(h)
				}
				h.eventually(p.heading+", in status and on the page", func() error { return o.shows(p) })
			}
		})
	}
}

// shows looks for a problem in what a person sees first.
func (o *operator) shows(p trouble) error {
	page, err := o.livePage()
	if err != nil {
		return err
	}
	shown := func(where, text string) error {
		for _, want := range p.says {
			if want = strings.ReplaceAll(want, "NAMESPACE", o.fixture.namespace); !strings.Contains(text, want) {
				return fmt.Errorf("%s has no %q:\n%s", where, want, text)
			}
		}
		return nil
	}
	page = regexp.MustCompile(`</?(span|code|b)[^>]*>`).ReplaceAllString(page, "")
	if err := shown("the page", page); err != nil {
		return err // status is a program that starts: it is asked last
	}
	return shown("status", o.ask("status"))
}

// livePage is the text of the live page.
func (o *operator) livePage() (string, error) {
	answer, err := http.Get("http://" + o.debug + "/") //nolint:noctx // it is on this machine
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return html.UnescapeString(string(text)), err
}

const troubledModules = `
-- modules/values.yaml --
failsEnabled: true
patchesEnabled: true
serviceEnabled: true
thiefEnabled: true
guardedEnabled: true
kindsEnabled: true
lateEnabled: true
echoEnabled: true
dnsEnabled: true
brokenEnabled: true
-- modules/005-dns/openapi/config-values.yaml --
properties: {replicas: {type: integer}}
-- modules/010-fails/hooks/fail.sh --
#!/bin/sh
[ "$1" = --config ] && { echo '{configVersion: v1, schedule: [{name: tick, crontab: "* * * * * *", queue: slow}]}'; exit; }
echo 'the database is away' >&2
exit 1
-- modules/020-patches/hooks/h.sh --
#!/bin/sh
[ "$1" = --config ] && { echo '{configVersion: v1, onStartup: 1}'; exit; }
echo '{operation: MergePatch, apiVersion: v1, kind: ConfigMap, namespace: '"$NAMESPACE"', name: later, mergePatch: {data: {a: b}}}' > "$KUBERNETES_PATCH_PATH"
-- modules/030-service/templates/service.yaml --
{apiVersion: v1, kind: Service, metadata: {name: service}, spec: {ipFamilyPolicy: Never, ports: [{port: 80}]}}
-- modules/040-thief/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: stolen}}
-- modules/050-guarded/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: guarded, labels: {guarded: "yes"}}}
-- modules/060-kinds/hooks/wait.sh --
#!/bin/sh
[ "$1" = --config ] && echo '{configVersion: v1, kubernetes: [{name: monitors, apiVersion: absent.example.com/v1, kind: NeverThere}]}'
-- modules/080-late/templates/deployment.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: late}
spec:
  progressDeadlineSeconds: 1
  selector: {matchLabels: {app: late}}
  template: {metadata: {labels: {app: late}}, spec: {containers: [{name: a, image: none}]}}
-- modules/100-echo/hooks/echo.sh --
#!/bin/sh
[ "$1" = --config ] && { echo '{configVersion: v1, afterHelm: 1}'; exit; }
echo '{"op": "add", "path": "/echo/time", "value": "'"$(date +%s%N)"'"}' > "$VALUES_JSON_PATCH_PATH"
-- modules/110-broken/Chart.yaml --
{apiVersion: v2, name: broken, version: 1.0.0, dependencies: [{name: redis, version: 1.0.0, repository: "https://charts.example.com"}]}
`

// allTroubles are the problems that can be brought about, by the operators that have them.
func allTroubles() map[string]troubles {
	return map[string]troubles{
		"modules": {troubledModules, (*fixture).startTroubled, []trouble{
			{"2. A hook fails, and its queue grows", []string{"the database is away", "addon-operator logs fails 010-fails/hooks/fail.sh"}, nil},
			{"Object patches that are refused", []string{`configmaps "later" not found`, "addon-operator logs patches"}, nil},
			{"3. A module's release cannot be upgraded", []string{"spec.ipFamilyPolicy: Unsupported value", "addon-operator module render service --diff"}, nil},
			{"4. A chart wants an object that belongs to another release", []string{"ConfigMap NAMESPACE/stolen belongs to release elsewhere", "remove it from one of the two charts, or delete its annotation"}, nil},
			{"6. A module fails: an object of its chart is forbidden", []string{"failed calling webhook", "guard.example.com"}, nil},
			{"7. A hook does not run: its kind does not exist", []string{"binding monitors: waiting for absent.example.com/v1/NeverThere", "install its CRD"}, nil},
			{"8. A module is not installed, and nothing fails", []string{"declares the dependency redis, which is not in charts/", "helm dependency build"}, nil},
			{"A module is progressing, or unhealthy", []string{"Deployment NAMESPACE/late has been Failed", "kubectl -n NAMESPACE describe deployment late"}, nil},
			{"9. Hooks run in a loop", []string{"hooks run in a loop", "fix the first of these", "afterHelm hooks of echo changed values"}, nil},
			{"1. The ConfigMap was edited and nothing happens", []string{"dns.replicas: must be an integer, is a string"}, func(h *fixture) {
				h.setConfig(map[string]string{"dns": "replicas: many"})
			}},
			{"1. The ConfigMap was edited and nothing happens", []string{"the ConfigMap is deleted; create it again, or create an empty one to remove all that it held"}, func(h *fixture) {
				h.deleteConfigMap("addon-operator")
			}},
		}},
		"a global hook": {`
-- global-hooks/g.sh --
#!/bin/sh
[ "$1" = --config ] && { echo '{configVersion: v1, beforeAll: 1}'; exit; }
echo 'the cloud is away' >&2
exit 1
`, (*fixture).startPlain, []trouble{
			{"A global hook that fails in the main queue", []string{"the cloud is away", "addon-operator logs global g.sh"}, nil},
		}},
		"rights": {`
-- modules/values.yaml --
watchEnabled: true
backupEnabled: true
-- modules/010-watch/hooks/h.sh --
#!/bin/sh
[ "$1" = --config ] && echo '{configVersion: v1, kubernetes: [{name: classes, apiVersion: storage.k8s.io/v1, kind: StorageClass}]}'
-- modules/020-backup/templates/cron.yaml --
apiVersion: batch/v1
kind: CronJob
metadata: {name: backup}
spec: {schedule: "0 0 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: none}]}}}}}
`, (*fixture).startWithoutRights, []trouble{
			{"5. A hook does not run: its binding is forbidden", []string{"not allowed to list storageclasses.storage.k8s.io", "'addon-operator rbac generate'"}, nil},
			{"6. A module fails: an object of its chart is forbidden", []string{`cannot create resource "cronjobs"`, "'addon-operator rbac generate'"}, nil},
		}},
		"purge": {troubledPurge, (*fixture).startPlain, []trouble{
			{"11. Releases of removed modules stay", []string{"the purge of 2 releases is held back", "to allow it: kubectl annotate"}, func(h *fixture) {
				h.awaitRevisions("one", "1:deployed")
				h.awaitRevisions("two", "1:deployed")
				h.remove("modules/010-one")
				h.remove("modules/020-two")
				h.setConfig(map[string]string{"global": "any: change"})
			}},
		}},
	}
}

const troubledPurge = `
-- modules/values.yaml --
oneEnabled: true
twoEnabled: true
-- modules/010-one/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
-- modules/020-two/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: two}}
`

func (h *fixture) startPlain() *operator {
	h.setConfig(map[string]string{"global": "any: text"})
	return h.start()
}

// startTroubled makes what fails the modules of troubledModules.
func (h *fixture) startTroubled() *operator {
	h.setConfig(map[string]string{"global": "any: text"})
	h.createConfigMap("watched", "watched", nil)
	_, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "stolen", Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		Annotations: map[string]string{"meta.helm.sh/release-name": "elsewhere", "meta.helm.sh/release-namespace": h.namespace},
	}}, metav1.CreateOptions{})
	must(h.t, err)
	h.write("hook.yaml", `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: `+h.namespace+`}
webhooks:
- name: guard.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 2
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+h.namespace+`}}
  objectSelector: {matchLabels: {guarded: "yes"}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  clientConfig: {service: {name: missing, namespace: `+h.namespace+`}}
`)
	h.t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "-f", h.path("hook.yaml")) })
	h.kubectl("apply", "-f", h.path("hook.yaml"))
	return h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate")
}

// startWithoutRights starts an operator that may do little more than lead itself.
func (h *fixture) startWithoutRights() *operator {
	h.grant("operator", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "events"}, Verbs: []string{"*"}})
	h.kubeconfig = h.serviceAccount("operator")
	return h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate")
}
