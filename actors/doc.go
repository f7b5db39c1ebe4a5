// Package actors is the runtime: who owns what, and who sends messages to which actor. It has the root, which spawns
// the other actors, the start, and what commands and pages ask of an operator in the same process
// ([Operator]). Each of the others is a package below; what all of them share is in package shared. Parsing,
// processes, Kubernetes and Helm belong to other packages and are called through the small interfaces of
// [shared.World].
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
// owner hands over what the run may know, with the values (work/known.go); the run starts a
// process or Helm, and asks the owner to apply the result. The owner is the single writer
// of its values and the supervision strategy of its runs. It notifies the queue once: when
// the run is gone, or when the queue is not to wait for its retries (parked).
//
// docs/architecture.md walks through it.
package actors
