// Package helm brings the chart of one module to the cluster and takes it away
// again. It is the only room that imports Helm.
//
// Values, hooks, queues and retries may not enter here: callers hand over a
// module name, a directory and finished values, and decide themselves when to
// try again.
//
// Every Apply walks the same four steps, each in a file of its name. Helm itself
// runs through its own actions, so that releases stay usable with the helm command
// line; two of its exported seams are filled with parts of ours. That is the core,
// 1,700 lines of code, to be read in this order:
//
//	apply.go      the walk, and Apply: one step, then State again until nothing is left
//	install.go    install and upgrade, by Helm's actions
//	state.go      State: what the release records in the cluster say
//	render.go     Render: the manifest the chart makes of the values
//	decide.go     Decide: state, checksum, absent objects → one step (pure)
//	operation.go  what one walk needs for itself, bound to one context
//	cluster.go    the first seam, kube.Interface: labels, owners, shared connections
//	store.go      the second, driver.Driver: the secrets of Helm, read without
//	              listing them again and again
//
// The other files each add one thing to it: client.go what callers use, connection.go the clients of the API server,
// uninstall.go the way back, survey.go and watch.go which objects exist and whose
// they are, recordwatch.go what others do to records, driver.go in which kind of object they are,
// codec.go how a record is packed, transport.go and reads.go the connection of one walk, wait.go and recreate.go what
// Helm does otherwise, unstable.go, lookup.go and repeats.go charts that render by chance or look into the cluster, errors.go
// and observe.go what callers learn, needs.go what an error says is missing, warned.go what the API server
// warns of, webhooks.go whose webhook has failed, foreign.go charts of others, record.go what a record says,
// history.go the recorded revisions, recall.go what it spares the next start, adopt.go releases of others, homes.go the namespaces that have releases, hookwait.go hooks that wait,
// resume.go an attempt that goes on with them, sort.go the order of documents, show.go, plan.go and dryrun.go
// what would happen.
//
// The packages below know no releases: charts reads directories, fetch gets charts of others, manifest what was
// rendered, kinds asks the API server what it serves, dryrun turns writes into dry
// runs.
package helm
