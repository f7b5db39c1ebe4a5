// Package helm installs, upgrades and uninstalls the release of one module. Only this package and
// those below it import Helm.
//
// Hooks of modules, queues and retries do not belong here: callers pass the name of a module, a
// directory and finished values, and decide themselves when to try again.
//
// Every Apply has the same four steps, each in a file of its name. Helm's own actions do the work,
// so that releases stay usable with the helm command line; two interfaces that these actions use
// are implemented here. That is the core, 1,500 lines of code, to be read in this order:
//
//	apply.go      Apply: one step, by Helm's actions, then State again until nothing is left to do
//	state.go      State: the content of the release records in the cluster; Decide: state, checksum, absent
//	              objects → one step (pure)
//	render.go     Render: the manifest that the chart makes of the values
//	operation.go  the parts of one Apply that it does not share, bound to one context, and its connection
//	cluster.go    implements kube.Interface of Helm: labels, owners, shared connections
//	store.go      implements driver.Driver of Helm: its Secrets, read without listing
//	              them again and again
//
// Each of the other files adds one thing:
//
//   - the interface for callers, and the connections of all: client.go; errors, and what everybody may read of them:
//     errors.go;
//   - records: record.go their encoding and content, and what is saved for the next start;
//   - objects: survey.go which exist and who owns them, watch.go what changes, and which end by themselves;
//   - what an upgrade deletes, what a person must allow first, and what a lost file must not delete: deletions.go;
//   - the way back: uninstall.go; releases of other programs: adopt.go; of modules that were renamed: survey.go; in
//     other namespaces: homes.go;
//   - what differs from Helm: hooks.go keeps hooks from replacing what is not theirs;
//   - what would happen: plan.go, dryrun.go.
//
// The packages below have no releases: charts reads directories, fetch downloads charts of others,
// manifest parses rendered manifests, kinds keeps the kinds that the API server serves, and health assesses
// objects.
package helm
