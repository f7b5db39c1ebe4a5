package testkit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/kube/objectpatch"
)

// rollTheDice writes the object of a chart that renders by chance: each revision has another text. It
// tells of it as the real client does.
func (r *Releases) rollTheDice(m helm.Module, outcome *helm.Outcome) error {
	if !r.chance[m.Name] || r.cluster == nil {
		return nil
	}
	if outcome.Action == helm.Upgraded {
		outcome.Unstable = m.Name + "/templates/cm.yaml, line 4 of its output"
	}
	o := objectNamed(m.Name + "-a")
	patches, err := objectpatch.Parse(fmt.Appendf(nil,
		`{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": %q, "name": %q}, "data": {"word": "w%d"}}}`,
		o.Namespace, o.Name, outcome.Revision))
	if err != nil {
		return err
	}
	written := func(string) {}
	if m.Writes != nil {
		written = m.Writes(o)
	}
	version := ""
	ctx := kube.ReportWritten(context.Background(), func(w kube.Written) { version = w.Version })
	_, err = r.cluster.client.ApplyObjectPatches(ctx, patches) // no hook's, so fail-objects does not count it
	written(version)
	return err
}

// pace skips an upgrade that must wait, as the real client does with charts that render by chance.
func (r *Releases) pace(name string, old deployed) (helm.Outcome, bool) {
	wait := r.paced[name]
	delete(r.paced, name)
	return helm.Outcome{
		Action: helm.Skipped, Revision: old.revision, Objects: objectsOf(name), Unstable: name + "/templates/cm.yaml, line 4 of its output", Again: wait,
	}, wait > 0
}

func (p *player) stepPace(rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	wait, err := time.ParseDuration(text)
	p.releases.mu.Lock()
	defer p.releases.mu.Unlock()
	p.releases.paced[name] = wait
	return err
}

func (p *player) stepChance(name string) error {
	p.releases.mu.Lock()
	defer p.releases.mu.Unlock()
	p.releases.chance[name] = true
	return nil
}
