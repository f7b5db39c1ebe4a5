package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// versions are the resourceVersions and UIDs of the ConfigMaps of the namespace that Helm made.
func (f *fixture) versions() map[string]string {
	f.Helper()
	list, err := f.kube.CoreV1().ConfigMaps(f.namespace).List(f.Context(), metav1.ListOptions{LabelSelector: managedByHelm})
	must(f, err)
	all := map[string]string{}
	for _, cm := range list.Items {
		all[cm.Name] = string(cm.UID) + " " + cm.ResourceVersion
	}
	return all
}

// adopted expects that a release of Helm is taken over: planned so, without a revision, and without a
// write to an object; and that the next start finds nothing to do.
func (f *fixture) adopted(m Module) {
	f.Helper()
	before, revisions := f.versions(), f.revisions(m.Name)
	if len(before) == 0 {
		f.Fatal("the release has no objects")
	}
	f.caughtUp()
	plan, err := f.client.Plan(f.Context(), m)
	if err != nil || plan.Action != Adopted || len(plan.Changes) != 0 || len(plan.Hooks) != 0 {
		f.Fatalf("plan: %+v, %v; want adopted, without changes", plan, err)
	}
	if ours, err := f.client.Ours(f.Context(), []string{m.Name}); err != nil || len(ours) != 0 {
		f.Fatalf("the plan has written: ours are %q, %v", ours, err)
	}
	if got := f.apply(m, Adopted, len(revisions)); !strings.Contains(got.Reason, "adopted unchanged") {
		f.Errorf("reason: %s", got.Reason)
	}
	f.apply(m, Skipped, len(revisions))
	f.restart()
	f.apply(m, Skipped, len(revisions))
	f.wantRevisions(m.Name, revisions...)
	if after := f.versions(); !maps.Equal(before, after) {
		f.Errorf("objects were written: before %v, after %v", before, after)
	}
	if ours, err := f.client.Ours(f.Context(), []string{m.Name}); err != nil || !slices.Equal(ours, []string{m.Name}) {
		f.Errorf("ours are %q, %v; want the release", ours, err)
	}
	if _, err := action.NewStatus(f.stock()).Run(m.Name); err != nil {
		f.Errorf("helm status: %v", err)
	}
}

const plainChart = `-- Chart.yaml --
{apiVersion: v2, name: plain, version: 1.0.0}
-- templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {text: {{ .Values.plain.text | quote }}}
`

// A release that Helm made is taken over when the module renders the same, by either driver. H6.
func TestAdoptsWhatHelmInstalled(t *testing.T) {
	for _, recordsIn := range []Driver{SecretDriver, ConfigMapDriver} {
		t.Run(string(recordsIn), func(t *testing.T) {
			f := start(t)
			f.recordsIn, f.labels = recordsIn, map[string]string{"heritage": "addon-operator"}
			f.restart()
			m := moduleOf(t, "plain", plainChart).with("text", "one")
			f.helmInstall(m.Name, m)
			f.adopted(m)
			if drift, known, err := f.client.Drift(t.Context(), m); err != nil || !known || len(drift) != 0 {
				t.Errorf("drift: %v, known %v, %v; the labels that come with the next revision are none", drift, known, err)
			}
			f.apply(m.with("text", "two"), Upgraded, 2)
			if got := f.configMap("plain")["text"]; got != "two" {
				t.Errorf("text = %q", got)
			}
		})
	}
}

// What a chart makes of the revision, or by chance, is no reason for a revision; the next edit is one.
func TestAdoptsWhatIsRenderedByRevisionAndChance(t *testing.T) {
	f := startOn(t, devclustertest.Borrow(t)) // kinds of other tests are an input of the chart
	m := moduleOf(t, "chance", strings.ReplaceAll(plainChart, "plain", "chance")+`-- templates/more.yaml --
apiVersion: v1
kind: ConfigMap
metadata:
  name: more
  annotations: {checksum: {{ randAlphaNum 20 | quote }}}
data:
  revision: "{{ .Release.Revision }}"
  {{- if .Release.IsInstall }}
  first: "yes"
  {{- end }}
`).with("text", "one")
	f.helmInstall(m.Name, m)
	f.adopted(m)
	f.apply(m.with("text", "two"), Upgraded, 2)
}

// A release that differs is upgraded.
func TestDoesNotAdoptWhatDiffers(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "plain", plainChart).with("text", "one")
	f.helmInstall(m.Name, m)
	f.caughtUp()
	edited := m.with("text", "two")
	plan, err := f.client.Plan(t.Context(), edited)
	if err != nil || plan.Action != Upgraded || len(plan.Changes) != 1 {
		t.Fatalf("plan: %+v, %v", plan, err)
	}
	f.apply(edited, Upgraded, 2)

	// What a person makes of a release that is ours is undone, unless it comes to the same.
	upgrade := action.NewUpgrade(f.stock())
	upgrade.Namespace = f.namespace
	loaded, err := loader.LoadDir(m.Dir)
	must(t, err)
	must(t, second(upgrade.Run("plain", loaded, edited.Values)))
	f.apply(edited, Adopted, 3)
	must(t, second(upgrade.Run("plain", loaded, m.Values)))
	f.apply(edited, Upgraded, 5)
}

// An object that is gone is a reason to act, also in a release that would be taken over.
func TestAdoptsNothingThatIsIncomplete(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "plain", plainChart).with("text", "one")
	f.helmInstall(m.Name, m)
	f.deleteConfigMap("plain")
	f.apply(m, Upgraded, 2)
	if got := f.configMap("plain")["text"]; got != "one" {
		t.Errorf("text = %q", got)
	}
}

func TestDifferenceOfRenders(t *testing.T) {
	one, other := []string{"fixed: x", "chance: abc"}, []string{"fixed: x", "chance: def"}
	for text, want := range map[string]bool{
		"fixed: x\nchance: xyz":          true,
		"fixed: y\nchance: xyz":          false,
		"fixed: x":                       false,
		"fixed: x\nchance: abc\nmore: b": false,
		"":                               false,
	} {
		if got := sameBut(strings.Split(text, "\n"), one, other); got != want {
			t.Errorf("%q is the same: %v", text, got)
		}
	}
	if sameBut([]string{"fixed: x", "chance: xyz"}, one, one) || !sameBut([]string{"a"}, []string{"a"}, nil) {
		t.Error("what two renders have in common may differ")
	}
}
