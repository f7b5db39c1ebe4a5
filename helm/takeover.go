package helm

import (
	"context"
	"errors"
	"fmt"
)

// checkOwners refuses to write objects of another release that has a module, of another program, or of another operator
// (Foreign), before anything is written: both would change them without end. Objects without an owner are adopted (H7).
func (a *apply) checkOwners() error {
	if a.surveyed {
		return nil
	}
	op := a.op
	// What is read here serves the action that follows. Hooks of the chart may change objects before Helm comes to them.
	op.transport.keepReads(!a.manifest.hooks) // also drops presumed answers
	owners, err := op.survey(a.manifest.objects)
	if err != nil {
		return err
	}
	var errs []error
	for i, o := range a.manifest.objects {
		them := owners[i]
		if !isOther(them, op.us()) {
			continue
		}
		if _, known := op.taken[them]; !known {
			if op.taken[them], err = op.mayTakeFrom(them); err != nil {
				return err
			}
			if op.taken[them] {
				op.log.Info("objects are taken over from a release that has no module directory any more", "from", them.name)
			}
		}
		if named, _, _ := op.home.resolve(o); !op.taken[them] {
			errs = append(errs, fmt.Errorf("%s belongs to release %s in namespace %s: remove it from one of the two "+
				"charts, or delete its annotation %s to hand it over", named, them.name, them.namespace, ownerName))
		}
	}
	if len(errs) > 0 {
		return &Error{Kind: Foreign, Release: op.release, Err: errors.Join(errs...)}
	}
	a.surveyed = true
	return nil
}

// mayTakeFrom reports whether a release was installed by this operator and has no module any more, as after a rename
// (H7): then its objects get the annotations of this release when they are applied, and a purge of the other one
// leaves them alone (removeOne).
func (op *operation) mayTakeFrom(them owner) (bool, error) {
	if op.orphaned == nil {
		return false, nil
	}
	if orphaned, err := op.orphaned(them.name); err != nil || !orphaned {
		return false, err
	}
	there, err := op.home.homes.holding(op.ctx, them.name)
	if err != nil || there.options.Namespace != them.namespace {
		return false, err
	}
	return there.isOurs(op.ctx, them.name)
}

// Claimed returns which of these objects modules have in their charts, and which module has each. A
// purge waits until these modules have taken the objects over. An error means that it is not known.
type Claimed func(ctx context.Context, objects []Object) (by map[Object]string, err error)

// unclaimed is an error as long as a release has an object that a module claims.
func (op *operation) unclaimed(s *store, claimed Claimed) error {
	manifests, err := s.manifests()
	if err != nil || claimed == nil {
		return err
	}
	named, err := objectsOf(manifests...)
	if err != nil {
		return err
	}
	var objects []Object // as News reports them
	for _, o := range named {
		if resolved, _, err := op.home.resolve(o); err == nil {
			objects = append(objects, resolved)
		}
	}
	by, err := claimed(op.ctx, objects)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if by[o] == "" {
			continue
		}
		live, _, err := op.home.look(op.ctx, o)
		if err != nil {
			return err
		}
		if ownerIn(live) == op.us() {
			return fmt.Errorf("it is held back: module %s renders %s, which belongs to this release until that module has taken it over",
				by[o], o)
		}
	}
	return nil
}
