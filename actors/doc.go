// Package actors is the runtime: who owns what, and who sends messages to which actor. It is the room
// of decisions; parsing, processes, Kubernetes and Helm belong to other rooms and are
// called through the small interfaces of [World].
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
//	├── module-objects             shows modules as objects of kind Module, takes requests from there
//	└── standby                    of a replica that does not lead, in place of converge,
//	                               owners, queues and schedule: loads hooks ahead
//
// A task goes from a queue to its owner and from there to a run, which may block. The
// owner hands over what the run may know, with the values (work/known.go); the run starts a
// process or Helm, and asks the owner to apply the result. The owner is the single writer
// of its values and the supervision strategy of its runs. It notifies the queue once: when
// the run is gone, or when the queue is not to wait for its retries (parked).
//
// docs/architecture.md walks through it.
package actors
