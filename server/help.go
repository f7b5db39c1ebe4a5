package server

// What the commands add to the sentence of their page.
const (
	aboutStatus = `Prints the state of the modules: how many fail, wait and are ready; each problem with its error and what
to do next; and what the queues do now.`

	aboutList = `Prints all modules in the order in which they run, including disabled ones.

STATE is one of

    disabled     it is disabled
    waiting      it is enabled, and its first run has not begun
    starting     it is in its first run, or waits to retry it
    running      it is in a later run, or waits to retry it
    ready        its last run has succeeded, and the objects of its release match their specs
    progressing  objects of its release are in progress
    unhealthy    objects of its release have failed, or have been in progress for too long
    held         an upgrade would delete data, and waits until a person allows it
    suspended    a person has suspended it, or it was disabled and is about to be deleted
    deleting     its release is being deleted

The state may be followed by parked (its run fails or takes long, and others continue without it),
maintenance and drift. Below the table, the command shows purges of releases without a module
directory that wait for a confirmation and, with a Lease, which replica leads.`

	aboutWhy = `Prints why a module is disabled, or the chain of causes of its last run, the latest first: the release, the change
of values, the hook, the binding, and the object, tick or edit that started it; what fails now, or what it waits for;
and the problems of its files and of the objects that its hooks watch.`

	aboutLogs = `Prints the last five runs of each hook of a module, or of the global hooks with the name global: when, why, how
long, and the last lines that each printed.`

	aboutRender = `Prints the manifest that a run of the module would apply now. With --diff it prints the differences from the deployed
release. Nothing is applied. Earlier revisions are those of Helm: helm history and helm get show them.`

	aboutDrift = `Prints the result of the last drift check: fields that the chart sets and that have
another value in the cluster. The option --drift determines whether the operator checks for drift.`

	aboutExplain = `Prints the layer that each value at a path of the running operator comes from: a file,
the ConfigMap, a default of a schema or a hook; for hooks the task and the time; and below
it the values that it overrides. A path to a map explains every value in it. It begins with global
or with the module, unless MODULE is given.`
)
