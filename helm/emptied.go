package helm

import (
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/release"
)

// emptied refuses a chart one of whose templates has no content, if the release has objects of it: a
// disk that is full, or a copy that is not finished, leaves such files, and an upgrade would delete
// these objects (P8). After a restart the records alone show what was there. A template that never
// had content has no objects in them.
func (t *target) emptied() error {
	empty := t.chart.EmptyTemplates()
	if len(empty) == 0 {
		return nil
	}
	earlier := t.store.state.sinceDeployed()
	if last, ok := t.store.state.Last(); ok && last.Status == release.StatusDeployed {
		earlier = []Revision{last}
	}
	for _, r := range earlier {
		rel, err := t.store.body(r)
		if err != nil {
			return err
		}
		for _, name := range empty {
			if strings.Contains(rel.Manifest, "\n# Source: "+name+"\n") {
				return &Error{Kind: Render, Release: t.op.release, Err: fmt.Errorf(
					"template %s of the chart in %s is empty, but revision %d has objects of it; restore it, or remove the file", name, t.module.chart().Where(), r.Version)}
			}
		}
	}
	return nil
}
