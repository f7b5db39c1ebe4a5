package testkit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/values"
)

// deploy writes the object of a release that has one in the cluster, and reports it as the real
// client does. Its text is the size in the values; that of a chart that renders by chance is
// another in each revision. A hook that watches it can so cause the next upgrade (K10).
func (r *Releases) deploy(m helm.Module, outcome *helm.Outcome) error {
	if !r.chance[m.Name] && !r.deploys[m.Name] || r.cluster == nil {
		return nil
	}
	word := sizeIn(m.Values, m.Key)
	if r.chance[m.Name] {
		word = fmt.Sprintf("w%d", outcome.Revision)
		if outcome.Action == helm.Upgraded {
			outcome.Unstable = m.Name + "/templates/cm.yaml, line 4 of its output"
		}
	}
	o := objectNamed(m.Name + "-a")
	patch := fmt.Appendf(nil,
		`{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": %q, "name": %q}, "data": {"word": %q}}}`,
		o.Namespace, o.Name, word)
	// The operator learns what is about to be written before the event can arrive, and then its
	// version.
	written := func(string) {}
	if m.Writes != nil {
		written = m.Writes(o)
	}
	version := ""
	ctx := kube.ReportWritten(context.Background(), func(w kube.Written) { version = w.Version })
	err := r.cluster.Write(ctx, patch)
	written(version)
	return err
}

// sizeIn is the size in the section of a module, as the text of its object.
func sizeIn(all map[string]any, key string) string {
	section, _ := all[key].(map[string]any)
	text, err := values.JSON(section["size"])
	if err != nil {
		return err.Error()
	}
	return "size " + string(text)
}

// undeploy deletes what deploy has written.
func (r *Releases) undeploy(name string) error {
	if !r.deploys[name] {
		return nil
	}
	o := objectNamed(name + "-a")
	_, err := r.cluster.Delete(scenario.Reference{Kind: "ConfigMap", Namespace: o.Namespace, Name: o.Name})
	return err
}

// upgrades are the latest of each release, and the latest steps of the script, which may be their
// reason: all of the last ten seconds. The lock of the releases guards them.
type upgrades struct {
	latest map[string][]time.Time
	steps  []time.Time
}

// count notes an upgrade, and what must never be in one. Whatever the script, a release has few
// upgrades in ten seconds: a loop through the cluster goes on, but slowly (K10).
func (u *upgrades) count(name, text string, observer *observer) {
	const few, ofStep = 12, 2 // in ten seconds, and for each step of the script in them
	u.latest[name] = append(lately(u.latest[name]), time.Now())
	u.steps = lately(u.steps)
	if n := len(u.latest[name]); n == few+ofStep*len(u.steps)+1 { // reported once, and not at each further one
		observer.problem("release %s was upgraded %d times in ten seconds; the script had %d steps", name, n, len(u.steps))
	}
	if strings.Contains(text, markOfFailed) {
		observer.problem("release %s has what a failed run of a hook has written: %s", name, text)
	}
}

// noteStep is called at each step: it may be the reason for upgrades.
func (r *Releases) noteStep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.upgrades.steps = append(lately(r.upgrades.steps), time.Now())
}

// lately leaves out what is older than ten seconds.
func lately(all []time.Time) []time.Time {
	const window = 10 * time.Second
	for len(all) > 0 && time.Since(all[0]) > window {
		all = all[1:]
	}
	return all
}

// pace skips an upgrade that must wait, once, as the real client does with charts that render by
// chance: the outcome says after which time to run again. It reports false when nothing must wait.
func (r *Releases) pace(name string, old deployed) (helm.Outcome, bool) {
	wait := r.paced[name]
	delete(r.paced, name)
	return helm.Outcome{
		Action: helm.Skipped, Revision: old.revision, Objects: r.kinds.objectsOf(name), Unstable: name + "/templates/cm.yaml, line 4 of its output", Again: wait,
	}, wait > 0
}

func stepPace(p *player, rest string) error {
	name, wait, err := scenario.Line{Rest: rest}.NameAndDuration()
	p.releases.mu.Lock()
	defer p.releases.mu.Unlock()
	p.releases.paced[name] = wait
	return err
}
