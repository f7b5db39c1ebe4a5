package helm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"

	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
)

// Uninstall deletes the objects of the release of a module and its whole history (H12). A missing
// release is no error: existed is false then. It can be called again whatever a killed operation has
// left. Objects whose annotations do not name the release as their owner stay; the delete hooks are
// those of the chart in m.Dir, rendered with m.Values (P2). Errors are of type *Error.
func (c *Client) Uninstall(ctx context.Context, m Module) (existed bool, err error) {
	return c.remove(ctx, removal{m, nil})
}

// Purge is Uninstall for a release whose module is gone (E10, G7). No person asked for it, so it
// does less: a release that is not ours (P2) counts as missing, the Helm hooks of the chart do not
// run, and objects that hold data stay (P1).
func (c *Client) Purge(ctx context.Context, name string, how Purging) (existed bool, err error) {
	return c.remove(ctx, removal{Module{Name: name}, &how})
}

func (c *Client) remove(ctx context.Context, how removal) (existed bool, err error) {
	home, err := c.homes.holdingOf(ctx, how.Module)
	if err != nil {
		return false, err
	}
	return home.remove(ctx, how)
}

// Purging is what a Purge may do.
type Purging struct {
	Data bool // delete objects that hold data, too: a person has allowed the purge
}

// removal is what remove removes, and how.
type removal struct {
	Module          // of a purge only its name
	purge  *Purging // nil for an Uninstall
}

// remove is Uninstall and Purge. The records are read again, because other clients write them, too;
// what is remembered of the release is forgotten even after a failure, which may have deleted a
// part.
func (h *home) remove(ctx context.Context, how removal) (existed bool, err error) {
	name := how.Name
	defer h.locks.lock(name)()
	op, err := h.begin(ctx, name)
	if err != nil {
		return false, err
	}
	defer func() { err = classify(ctx, name, op, err) }()
	op.purge, op.keepsData, op.giveUp = how.purge != nil, how.purge != nil && !how.purge.Data, how.GiveUp
	state, err := h.records.reread(ctx, name)
	if err != nil {
		return false, err
	}
	if len(state.Revisions) == 0 {
		h.unpoint(ctx, name)
		return false, nil
	}
	s := op.store(state)
	if op.purge || !h.isRoot() {
		ours, err := s.ours()
		if err == nil && !ours {
			op.log.Info("the release is left alone: it was not installed by an addon-operator")
		}
		if err != nil || !ours {
			return false, err
		}
	}
	if err := op.dropCorrupted(s); err != nil {
		return false, err
	}
	err = op.uninstall(s, how.Module)
	// From here on objects are missing because of us: News must not report them, and an Apply that
	// follows begins without anything remembered.
	h.renderer.renders.Delete(name)
	h.want(name, nil)
	if err != nil {
		h.records.doubt(name)
		return true, err
	}
	h.unpoint(ctx, name)
	h.homes.inputs.put(name, nil)
	return true, nil
}

// Ours returns those of the given releases that this operator has installed, or an older one whose
// labels it recognises (P2, H6). All others belong to people and other programs. After Releases it costs no request.
func (c *Client) Ours(ctx context.Context, releases []string) (ours []string, err error) {
	for _, name := range releases {
		home, err := c.homes.holding(ctx, name)
		if err != nil {
			return nil, err
		}
		is, err := home.isOurs(ctx, name)
		if err != nil {
			return nil, err
		}
		if is {
			ours = append(ours, name)
		}
	}
	return ours, nil
}

// ours looks for signs of an operator: its labels on any revision, because Helm copies them to
// revisions that a person makes, or the checksum among the values of the newest one (H6). A
// corrupted record has none. Outside of the operator's namespace only the label with the name of
// the operator's namespace counts, because other operators may have releases there.
func (s *store) ours() (bool, error) {
	if operator := s.op.operator(); operator != "" {
		of := func(r Revision) bool { return r.labels[OperatorLabel] == operator }
		return slices.ContainsFunc(s.state.Revisions, of), nil
	}
	if s.marked() {
		return true, nil
	}
	last, ok := s.state.Last()
	if !ok {
		return false, nil
	}
	rel, err := s.body(last)
	if err != nil {
		return false, unlessCorrupted(err)
	}
	_, ok = rel.Config[legacyChecksumKey]
	return ok, nil
}

// marked reports whether a revision has our labels.
func (s *store) marked() bool {
	return slices.ContainsFunc(s.state.Revisions, func(r Revision) bool { return r.labels[ChecksumLabel] != "" || r.labels[revisionLabel] != "" })
}

// uninstall deletes the objects of the newest revision, and those that older revisions have left.
// All kinds must be reachable first: an object whose API does not answer would be taken for
// deleted, and its record would be gone.
func (op *operation) uninstall(s *store, of Module) error {
	last, ok := s.state.Last()
	if !ok {
		return nil
	}
	newest, err := s.body(last)
	if err != nil {
		return err
	}
	if !op.purge {
		if err := chartsDeleteHooks(op, s, newest, of); err != nil {
			return err
		}
	}
	if r := op.home.dry; r != nil && !op.purge {
		r.hooks = hooksOf(newest, Uninstalled)
	}
	manifests, err := s.manifests()
	if err != nil {
		return err
	}
	if err := op.home.reachManifests(manifests...); err != nil {
		return err
	}
	cfg, _ := op.configuration(s)
	op.uninstalls = newest.Manifest
	u := action.NewUninstall(cfg)
	u.Timeout = op.home.options.Timeout
	u.IgnoreNotFound = true
	u.DisableHooks = op.purge || op.home.dry != nil
	// The newest manifest, whose objects the uninstall deletes, is not all there is when its revision did not get to
	// its end: objects that it dropped still exist.
	if last.Status != release.StatusUninstalled && len(manifests) > 1 {
		kept, err := objectsOf(newest.Manifest)
		if err != nil {
			return err
		}
		if err := op.removeAll(manifests[1:], kept); err != nil {
			return err
		}
	}
	if _, err := u.Run(op.release); err != nil {
		return op.orRefused(err)
	}
	op.reportUnserved()
	return nil
}

// objectsOf are the objects that manifests name.
func objectsOf(manifests ...string) (all []Object, err error) {
	for _, text := range manifests {
		found, err := manifest.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("manifest of an older revision: %w", err)
		}
		for _, u := range found {
			all = append(all, manifest.Of(u))
		}
	}
	return all, nil
}

// chartsDeleteHooks replaces the delete hooks in a record by those that the chart on disk has (P2): whoever writes a
// record could otherwise have anything created and deleted, with the rights of the operator. A record without such
// hooks runs none. If the chart cannot be rendered, the error keeps the release: a hook may be there to protect its
// data.
func chartsDeleteHooks(op *operation, s *store, rel *release.Release, of Module) error {
	if !slices.ContainsFunc(rel.Hooks, runsOnDelete) {
		return nil
	}
	var has []*release.Hook
	if charts.Exists(of.Dir) {
		loaded, err := op.home.renderer.load(&of)
		if err == nil {
			has, _, err = op.home.renderer.documents(op, of, loaded, chartutil.ReleaseOptions{
				Revision: rel.Version, IsInstall: s.state.installs(), IsUpgrade: !s.state.installs(),
			})
		}
		if err != nil {
			return fmt.Errorf("the release has delete hooks, and which of them the chart has is unknown: %w", renderProblem(op.ctx, op, of, err))
		}
	}
	rel.Hooks = append(slices.DeleteFunc(slices.Clone(rel.Hooks), runsOnDelete), undone(has, rel)...)
	return nil
}

// runsOnDelete reports whether an uninstall runs a hook.
func runsOnDelete(h *release.Hook) bool {
	return slices.Contains(h.Events, release.HookPreDelete) || slices.Contains(h.Events, release.HookPostDelete)
}

// removeAll deletes what manifests list and wanted does not have, the last object first. A purge that no person has
// allowed leaves what holds data: the directory may be gone by mistake (P1).
func (op *operation) removeAll(manifests []string, wanted []Object) error {
	p, err := op.compare(manifests, wanted)
	if err != nil {
		return err
	}
	if op.keepsData {
		op.report(slog.LevelWarn, whyData, p.data)
		p.gone = p.without()
	}
	slices.Reverse(p.gone)
	return op.remove(p.gone)
}

// dropCorrupted removes newest records that cannot be read, until one can. When
// none can, the objects of the release are unknown and stay.
func (op *operation) dropCorrupted(s *store) error {
	for _, r := range slices.Backward(s.state.Revisions) { // Delete makes a new slice
		_, err := s.body(r)
		corrupted, ok := errors.AsType[*corruptedError](err)
		if !ok {
			return err
		}
		if err := s.drop(corrupted, "objects that only it listed stay in the cluster"); err != nil {
			return err
		}
	}
	return nil
}
