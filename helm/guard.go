package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

// Hold is an upgrade that must not happen until a person allows it (P1): it would delete all that the release has, or
// objects whose data goes with them. A truncated template, a renamed value and half a copy look like that.
type Hold struct {
	Objects []Object // that would be deleted, sorted by name
	Why     string   // a phrase that follows "because"
	// Confirm is the text that allows it, as Module.Allowed: for exactly these objects.
	Confirm string

	has      []Object // what the release has, whatever of it the chart still contains
	metadata *chart.Metadata
}

// outcome is that of an Apply that is held.
func (h *Hold) outcome(state State) Outcome {
	last, _ := state.Last()
	return Outcome{Action: Held, Reason: h.Why, Revision: last.Version, Held: h}
}

// guard finds out whether a step would delete too much, and sets held if no person has allowed it. Objects that do not
// exist any more, lack our annotations or are to be kept do not count, because they are not deleted.
func (a *apply) guard(step Step) error {
	a.held, a.gone = nil, nil
	if step != StepUpgrade && step != StepReinstall {
		return nil
	}
	last, _ := a.store.state.Last()
	newest, err := a.store.body(last)
	if err != nil {
		return err
	}
	manifests, err := a.store.manifests()
	if err != nil {
		return err
	}
	p, err := a.op.compare(manifests, a.manifest.objects)
	if err != nil {
		return err
	}
	if step == StepReinstall { // what holds data is not deleted
		a.op.report(slog.LevelWarn, "objects of a failed revision are no longer in the chart and stay, because their data would be deleted with them", p.data)
		p.gone, p.data = p.without(), nil
	}
	a.gone = p.gone
	h := p.hold(len(a.manifest.objects))
	if h == nil {
		return nil
	}
	if h.Confirm = confirmation(a.module.Name, h.Objects); h.Confirm == a.module.Allowed {
		a.op.log.Warn("objects are deleted, as a person has allowed", "confirmation", h.Confirm)
		return nil
	}
	h.metadata = newest.Chart.Metadata
	a.held = h
	return nil
}

// hold decides, by the number of objects that the chart has now; nil: the step may go on.
func (p past) hold(objects int) *Hold {
	h := &Hold{Objects: p.gone, has: append(p.stays, p.gone...)}
	switch empties := len(p.stays) == 0; {
	case empties && len(p.gone) > 0 && objects == 0:
		h.Why = "the chart renders no objects, so all objects of the release would be deleted"
	case empties && len(p.gone) > 1: // a single one may have another name: that of a checksum, for example
		h.Why = "all objects of the release would be deleted: none of them is in the chart any more"
	case len(p.data) > 0:
		h.Objects, h.Why = p.data, "their data would be deleted with them: they are not in the chart any more"
	default:
		return nil
	}
	slices.SortFunc(h.Objects, func(x, y Object) int { return strings.Compare(nameOf(x), nameOf(y)) })
	return h
}

// nameOf names an object with the group of its kind, and without spaces.
func nameOf(o Object) string {
	name := o.GVK.GroupKind().String()
	if o.Namespace != "" {
		name += "/" + o.Namespace
	}
	return name + "/" + o.Name
}

// maxConfirmation is the length in bytes up to which a confirmation names the objects.
const maxConfirmation = 200

// confirmation is the text that allows to delete exactly these objects, which are sorted. It names them; where that is
// long, or a shell would not take the names as they are, it has their number and a checksum instead.
func confirmation(module string, objects []Object) string {
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = nameOf(o)
	}
	text, plain := module+":"+strings.Join(names, ","), regexp.MustCompile(`^[A-Za-z0-9:/.,_-]+$`)
	if len(text) <= maxConfirmation && plain.MatchString(text) {
		return text
	}
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return fmt.Sprintf("%s:%d-objects-%s", module, len(objects), hex.EncodeToString(sum[:])[:12])
}
