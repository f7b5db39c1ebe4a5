package helm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v3/pkg/kube"
)

// takes is what an operation takes over from releases whose module is gone, as after a rename
// (H7). The objects get the annotations of this release when they are applied, so a purge of the
// other one leaves them alone (cluster.owned). Until the operation ends, no purge runs.
type takes struct {
	orphaned  func(release string) (bool, error) // Module.Orphaned
	from      map[owner]bool
	manifests []string // of these releases: what their objects were made from
	unlock    []func()
}

// end lets the releases be purged.
func (t *takes) end() {
	for _, unlock := range t.unlock {
		unlock()
	}
}

// names are the releases, sorted.
func (t *takes) names() (all []string) {
	for them := range t.from {
		all = append(all, them.name)
	}
	slices.Sort(all)
	return all
}

// owners reads who owns objects, and refuses those of another release that has a module, of another
// program, or of another operator (Foreign). keep: the answers serve the action that follows.
func (op *operation) owners(objects []Object, keep bool) (survey, error) {
	op.transport.keepReads(keep) // also drops presumed answers
	found, err := op.survey(objects)
	if err != nil {
		return nil, err
	}
	theirs := map[owner][]string{}
	for _, o := range objects {
		if them := found[o]; isOther(them, op.us()) && !op.takes.from[them] {
			theirs[them] = append(theirs[them], o.String())
		}
	}
	for _, them := range slices.SortedFunc(maps.Keys(theirs), owner.compare) {
		if err := takeFrom(op, them, theirs[them]); err != nil {
			return nil, err
		}
	}
	if err := found.foreign(objects, op.us(), op.takes.from); err != nil {
		return nil, &Error{Kind: Foreign, Release: op.release, Err: err}
	}
	return found, nil
}

func (o owner) compare(other owner) int {
	return cmp.Or(cmp.Compare(o.name, other.name), cmp.Compare(o.namespace, other.namespace))
}

// takeFrom begins to take objects from a release, if that is allowed.
func takeFrom(op *operation, them owner, objects []string) error {
	if op.takes.orphaned == nil {
		return nil
	}
	if orphaned, err := op.takes.orphaned(them.name); err != nil || !orphaned {
		return err
	}
	there, err := op.home.homes.holding(op.ctx, them.name)
	if err != nil {
		return err
	}
	if there.options.Namespace != them.namespace {
		return nil
	}
	op.takes.unlock = append(op.takes.unlock, op.home.locks.lock(them.name))
	state, err := there.records.look(op.ctx, them.name)
	if err != nil {
		return err
	}
	s := (&operation{ctx: op.ctx, home: there, release: them.name, log: op.log}).store(state)
	if ours, err := s.ours(); err != nil || !ours {
		return err
	}
	last, _ := s.state.Last()
	if rel, err := s.body(last); err == nil { // one that is corrupted is no base of a merge
		op.takes.manifests = append(op.takes.manifests, rel.Manifest)
	}
	if op.takes.from == nil {
		op.takes.from = map[owner]bool{}
	}
	op.takes.from[them] = true
	if op.home.dry == nil {
		op.log.Info("objects are taken over from a release that has no module directory any more",
			"from", them.name, "objects", objects)
	}
	return nil
}

// madeFrom replaces, in the base of a merge, the objects of some releases by what older manifests
// have made of them, so that fields that only these have set are removed.
func (k *cluster) madeFrom(base kube.ResourceList, manifests []string, of map[owner]bool) (kube.ResourceList, error) {
	base = slices.Clone(base)
	for _, text := range manifests {
		known, err := k.builder.build(text, false)
		if err != nil {
			k.op.debug("an older manifest cannot be the base of a merge: %v", err)
			continue
		}
		for i, info := range base {
			older := known.Get(info)
			if older == nil {
				continue
			}
			them, err := k.ownerOf(info)
			if err != nil {
				return nil, err
			}
			if of[them] {
				base[i] = older
			}
		}
	}
	return base, nil
}

// Claimed returns which of these objects modules have in their charts, and which module has each. A
// purge waits until these modules have taken the objects over. An error means that it is not known.
type Claimed func(ctx context.Context, objects []Object) (by map[Object]string, err error)

// unclaimed is an error as long as a release has an object that a module claims.
func unclaimed(op *operation, s *store, claimed Claimed) error {
	if claimed == nil {
		return nil
	}
	if err := op.dropCorrupted(s); err != nil {
		return err
	}
	objects, err := op.home.recorded(s)
	if err != nil || len(objects) == 0 {
		return err
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

// recorded are the objects that an uninstall would delete, as News reports them. Those of unknown
// kinds are left out.
func (h *home) recorded(s *store) (all []Object, err error) {
	manifests, err := s.sinceDeployed()
	if err != nil {
		return nil, err
	}
	if last, ok := s.state.Last(); ok {
		newest, err := s.body(last)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, newest.Manifest)
	}
	for _, text := range manifests {
		found, err := objectsOf(text)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if resolved, _, err := h.resolve(o); err == nil {
				all = append(all, resolved)
			}
		}
	}
	return all, nil
}
