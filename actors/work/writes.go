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
	"addon-operator/supervisor"
)

// writesOf notifies monitors that the object patches of a hook are about to be done; the caller calls
// written when they are.
func (j Job) writesOf(run *supervisor.Run, hook hooks.Hook, objects []objectpatch.Patch) (ctx context.Context, written func()) {
	begun := messages.ObjectsPatched{
		Write: j.shows.Add(1),
		Cause: messages.By(messages.ByHook, hook.Name+" patched objects", j.Task.Cause).In(traceOf(run)),
	}
	for _, o := range objects {
		begun.Objects = append(begun.Objects, messages.ObjectName{Kind: strings.ToLower(o.Kind), Namespace: o.Namespace, Name: o.Name})
	}
	run.Tell(MonitorsPath, begun)
	ended := messages.ObjectsWritten{Write: begun.Write}
	ctx = kube.ReportWritten(run.Context(), func(o kube.Written) {
		name := messages.ObjectName{Kind: strings.ToLower(o.Kind), Namespace: o.Namespace, Name: o.Name}
		ended.Versions = append(ended.Versions, messages.ObjectVersion{ObjectName: name, Version: o.Version})
	})
	return ctx, func() { run.Tell(MonitorsPath, ended) }
}

// helmWrites is writesOf for an object of the release.
func (j ModuleJob) helmWrites(run *supervisor.Run, o helm.Object) (written func(version string)) {
	name := messages.ObjectName{Kind: strings.ToLower(o.GVK.Kind), Namespace: o.Namespace, Name: o.Name}
	begun := messages.ObjectsPatched{
		Write: j.shows.Add(1), Objects: []messages.ObjectName{name},
		Cause: messages.By(messages.ByHelm, "Helm wrote objects of release "+j.Owner, j.Task.Cause).In(traceOf(run)),
	}
	run.Tell(MonitorsPath, begun)
	return func(version string) {
		ended := messages.ObjectsWritten{Write: begun.Write}
		if version != "" {
			ended.Versions = []messages.ObjectVersion{{ObjectName: name, Version: version}}
		}
		run.Tell(MonitorsPath, ended)
	}
}

// tellRun notifies monitors that the process of a hook begins, if it watches anything; the caller
// calls ended when it is over.
func (j Job) tellRun(run *supervisor.Run, hook hooks.Hook, contexts []hooks.Context) (ended func()) {
	if len(hook.Config.Kubernetes) == 0 {
		return func() {}
	}
	other := func(c hooks.Context) bool {
		return c.Type != hooks.TypeEvent && c.Type != hooks.TypeGroup && c.WatchEvent == ""
	}
	id := j.shows.Add(1)
	run.Tell(MonitorsPath, messages.HookBegan{Owner: j.Owner, Hook: hook.Name, Run: id, ByEvents: !slices.ContainsFunc(contexts, other)})
	return func() { run.Tell(MonitorsPath, messages.HookEnded{Owner: j.Owner, Hook: hook.Name, Run: id}) }
}
