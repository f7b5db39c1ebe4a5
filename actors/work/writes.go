package work

import (
	"context"
	"slices"
	"strings"

	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/objectpatch"
	"addon-operator/messages"
)

// writes notifies monitors that the object patches of a hook are about to be done; the caller calls
// written when they are, also after a failure. An event of one of these objects may arrive before
// the answer to the write, which has the resourceVersion. So monitors receive the names first and
// the versions at the end, and by the versions know which events the hook has caused (K10). ctx
// must be used for the patches: it reports what they write.
func (h HookJob) writes(objects []objectpatch.Patch) (ctx context.Context, written func()) {
	begun := messages.ObjectsPatched{
		Write: h.job.shows.Add(1),
		Cause: messages.By(messages.ByHook, h.hook.Name+" patched objects", h.job.Task.Cause).In(traceOf(h.run)),
	}
	for _, o := range objects {
		begun.Objects = append(begun.Objects, messages.ObjectName{Kind: strings.ToLower(o.Kind), Namespace: o.Namespace, Name: o.Name})
	}
	h.run.Tell(MonitorsPath, begun)
	ended := messages.ObjectsWritten{Write: begun.Write}
	ctx = kube.ReportWritten(h.run.Context(), func(o kube.Written) {
		name := messages.ObjectName{Kind: strings.ToLower(o.Kind), Namespace: o.Namespace, Name: o.Name}
		ended.Versions = append(ended.Versions, messages.ObjectVersion{ObjectName: name, Version: o.Version})
	})
	return ctx, func() { h.run.Tell(MonitorsPath, ended) }
}

// writes notifies monitors that an object of the release is about to be written; the caller calls
// written when it is, with an empty version when there is none. Helm calls it for several objects
// at the same time.
func (r releaseJob) writes(o helm.Object) (written func(version string)) {
	name := messages.ObjectName{Kind: strings.ToLower(o.GVK.Kind), Namespace: o.Namespace, Name: o.Name}
	begun := messages.ObjectsPatched{
		Write: r.job.shows.Add(1), Objects: []messages.ObjectName{name},
		Cause: messages.By(messages.ByHelm, "Helm wrote objects of release "+r.job.Owner, r.job.Task.Cause).In(traceOf(r.run)),
	}
	r.run.Tell(MonitorsPath, begun)
	return func(version string) {
		ended := messages.ObjectsWritten{Write: begun.Write}
		if version != "" {
			ended.Versions = []messages.ObjectVersion{{ObjectName: name, Version: version}}
		}
		r.run.Tell(MonitorsPath, ended)
	}
}

// begins notifies monitors that the process of a hook begins, if it watches anything; the caller
// calls ended when it is over. Objects that a hook writes by itself, with kubectl, are not reported
// at all: a loop through them shows in the pattern of its runs and events only (K10). Only runs
// that nothing but events have caused count for that (ByEvents).
func (h HookJob) begins(contexts []hooks.Context) (ended func()) {
	if len(h.hook.Config.Kubernetes) == 0 {
		return func() {}
	}
	other := func(c hooks.Context) bool {
		return c.Type != hooks.TypeEvent && c.Type != hooks.TypeGroup && c.WatchEvent == ""
	}
	id := h.job.shows.Add(1)
	h.run.Tell(MonitorsPath, messages.HookBegan{Owner: h.job.Owner, Hook: h.hook.Name, Run: id, ByEvents: !slices.ContainsFunc(contexts, other)})
	return func() { h.run.Tell(MonitorsPath, messages.HookEnded{Owner: h.job.Owner, Hook: h.hook.Name, Run: id}) }
}
