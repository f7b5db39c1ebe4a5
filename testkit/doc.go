// Package testkit plays the life of an operator on virtual time: the real actors, real
// or scripted hooks, and packages helm and kube on the API server in memory. A lifecycle of hours takes
// milliseconds, and its trace is the same each time:
// the player runs one goroutine at a time (scheduler.go), in an order that a seed decides.
//
// A lifecycle script is a txtar archive. Its comment says in a sentence what it proves,
// its files are the modules and hooks, "script" has the steps, each after >, and below each what must
// happen. docs/testkit.md explains the language with an example. There are three ways to play:
//
//   - [Lifecycle] plays files and compares their traces; -update rewrites them.
//   - [Interleave] plays files under seeds: whatever the order of messages is, the same
//     must be left, and the same hooks must have run. -seeds N plays more of them.
//   - [Script] is a script in code, and [Play] returns what was left of one.
//
// In all of them some things must never be: messages without a handler, two things
// at the same time that exclude each other, actors that outlive the stop ([Played.Problems]).
//
// Steps are:
//
//	start                         start the operator and wait until nothing happens
//	stop                          stop it; what is on disk and in the cluster stays
//	advance 5s                    let time pass
//	calm 1s                       let it pass until all queues are empty, at most so long
//	configmap FILE                replace the ConfigMap: a YAML map of key to text
//	configmap-set KEY TEXT        set one key of it
//	configmap-remove KEY          remove one key of it
//	configmap-away                delete it
//	configmap-back                create it again as it was, unless the operator has
//	secret-set KEY TEXT           set one key of the Secret with values
//	secret-remove KEY             remove one key of it; 'delete Secret addon-operator/addon-operator' deletes it
//	secret-forbidden              the operator may not read it (before start)
//	confirm-purge TEXT            annotate it: a purge that is held back may go
//	apply FILE                    create or change objects in the cluster
//	object KIND NAMESPACE/NAME    create one that has nothing but its name
//	objects KIND NS/NAME N        create N of them: NAME-1, NAME-2 …
//	delete KIND NAMESPACE/NAME    delete one
//	hold-news                     events of watches are held back from now on; lists are not
//	deliver-news                  the held events are delivered
//	forbid KIND [NAMESPACE]       the operator may not read it any more
//	permit KIND [NAMESPACE]       it may again
//	no-kind KIND                  a kind that does not exist
//	kind KIND                     it exists from now on
//	fail HOOK N                   the next N runs of a hook, or enabled script, fail
//	slow HOOK DURATION            its runs take that long from now on
//	fail-config HOOK N            the next N questions for its configuration fail
//	slow-config HOOK DURATION     they take that long from now on
//	fail-helm RELEASE N           the next N installs, upgrades or uninstalls fail
//	fail-objects N                the API server refuses the next N operations on objects by hooks
//	slow-objects DURATION         so long the operations on objects of a run of a hook take from now on
//	no-faults                     all faults end: nothing fails or is slow any more
//	away-helm RELEASE N           the next N of them need an API whose server does not answer
//	slow-helm RELEASE DURATION    they take that long from now on
//	hook-waits RELEASE DURATION   so long the Helm hook of its installs and upgrades takes from now on; that
//	                              of its delete is RELEASE-delete
//	slow-crds DURATION            so long the installation of CRDs takes from now on
//	health RELEASE-b STATE        how an object of a release is from now on: Current, InProgress, Failed or Unknown. With this
//	                              step in the script, it is a Deployment
//	module-objects                objects of kind Module may be written from now on
//	no-module-objects WHY         the kind is not there, or with WHY forbidden may not be used
//	module-suspend NAME [false]   set spec.suspend of an object
//	module-request NAME AT        annotate an object: run now
//	module-retry NAME AT          annotate an object: retry now
//	module-crossed STEP NAME      suspend or request, in the middle of the operator's next write of its status
//	module-slow DURATION          each write of a status takes so long from now on
//	module-delete NAME            delete an object
//	vanish OBJECT...              delete objects of releases; release r has the objects r-a and r-b
//	brings RELEASE KIND           its chart has the definition of a kind, or with namespace:NAME a namespace
//	uses RELEASE KIND             its chart has an object of a kind, or in a namespace
//	delete-kind KIND              delete the definition, and with it the objects of the kind
//	replace OBJECT                delete one and create another of its name
//	panic HOOK N                  the next N runs of a hook panic, as a mistake of ours would
//	allow-purge                   hold no purge back (before start)
//	last-valid                    keep the last valid ConfigMap and start with it (before start)
//	isolate                       park modules that fail (before start)
//	width N                       modules of one order that run in parallel (before start)
//	snapshot-limit BYTES          what the snapshot of a binding may take (before start)
//	why MODULE                    print what led to the last run of a module, or why it is off
//	plan [FILE]                   print what the operator would do, with another ConfigMap
//	drift MODE PERIOD             look for drift (before start)
//	change OBJECT [N]             change an object of a release, and again after N corrections
//	unchange                      undo all these changes
//	show-drift MODULE             print what a module knows of its drift
//	release NAME                  a release of an earlier operator
//	foreign-release NAME          a release that a person installed
//	remove PATH                   remove a file or directory
//	rename PATH PATH              give a directory another name
//	write PATH FILE               write a file of the archive again, to another place
//	restore PATH                  write all files of the archive below a path again
//	notice-disk                   the watch of the disk notices what was written, removed, renamed or restored
//	seed N                        draw the order of messages from a seed
//	unordered                     sort the trace within an instant: queues run in parallel
//	kill                          end the operator at once, as kill -9 does
//	crash ACTOR over MESSAGE      the same, when an actor (module/dns, root, or * for any) is about to
//	                              handle the next message of a type: its handler panics
//	crash ACTOR after MESSAGE     the same, when it has been handled; a script fails when
//	                              the message never comes
//	respawn                       from now on an operator that was killed is started again before the next step
//	messages                      count the messages of the next step, and print them; an answer is one more
//	counts                        print how the runs of hooks were counted
//	observed                      print whether the operator has seen the ConfigMap as it is
//	show                          print the state; what is as it should be, in one line
//
// Nothing in here is for production; package devclustertest has the real API server.
package testkit
