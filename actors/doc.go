// Package actors is the runtime: who owns what, and who sends messages to which actor. Parsing, processes, Kubernetes
// and Helm belong to other packages and are called through the small interfaces of [World].
//
//	operator                       spawns the others, stops them in order
//	├── config                     the ConfigMap: validates, refuses, is its only writer
//	├── converge                   'reload all modules': discovery, steps, readiness
//	├── global-hooks               owns global values and global hooks
//	│   └── run/<task>
//	├── module/<name>              owns values, hooks, phase and release of one module
//	│   └── run/<task>
//	├── queue/<name>               FIFO of tasks, one in progress; main always exists
//	├── monitors                   watches of kubernetes bindings; events become tasks
//	├── schedule                   crontabs become tasks
//	├── healer                     an object of a release is gone: its module runs again
//	└── module-objects             shows modules as objects of kind Module, takes requests from there
//
// A task goes from a queue to its owner and from there to a run, which may block. The
// owner hands over what the run may know, with the values (known, services.go); the run starts a
// process or Helm, and asks the owner to apply the result. The owner is the single writer
// of its values, and supervises its runs. It notifies the queue once: when
// the run is gone, or when the queue is not to wait for its retries (parked).
//
// An actor knows of the others only the messages that they exchange, which package messages lists; no actor has a
// pointer to another one. The files follow the actors:
//
//   - operator.go is the root, what the start reads, and [Operator]; asks.go is what commands and pages ask. program.go is
//     what all actors share, phases.go has the drawings of all phases.
//   - config.go: the ConfigMap and the Secret with values above it are one document, which is refused as a whole
//     (D16, D40). config is their only writer.
//   - converge.go and reloads.go: what is known of all modules, and the life of a reload.
//   - module.go and global_hooks.go are the owners. What they have in common is the owner: tasks and their runs
//     and values (owner.go), and hooks (module_life.go). module_life.go is also what a module does when it is switched
//     on or off, suspended or forgotten, drift.go what it does about changes of others.
//   - run_*.go is what runs do, and services.go what they use. These functions execute in goroutines of their own and
//     may block. They must not touch the state of an actor: what they may know its owner hands over (known), and for the
//     rest they ask.
//   - queue.go is the head of a queue, the tasks behind it, what makes two tasks one, and what slows loops down.
//   - monitors.go and schedule.go make tasks of events and of crontabs.
//   - healer.go notices that objects of releases are gone (H13), and how healthy the others are (H25).
//   - module_objects.go writes an object of kind Module for each module and takes requests from there (J14 to J17), with
//     the conditions and reasons of Flux, so that kstatus understands it.
//   - metrics.go counts (chapter I of the rules), and reads at a scrape what the actors publish. metrics_reports.go holds what
//     hooks report.
//
// docs/architecture.md walks through it.
package actors
