// Package messages is the vocabulary of the actors: one file for each conversation.
//
// Commands are imperative and have one receiver (RunHook, SaveConfig). Events are past
// and state a fact (ObjectChanged, TaskDone). Messages are values and are never written
// to once sent; they carry no context, func, PID or mutex. Messages that only two actors
// of package actors exchange stay there, next to their handlers; what runs alone ask for is in
// package actors/work, next to the question.
//
// Also in here: what tasks do (task.go: the types of Work), what actors publish about
// themselves (status.go), and what pages show (plan.go, inspection.go, render.go …).
// They may describe, count and mask themselves for people; other behaviour is not allowed.
//
//	message              sender            receiver
//
//	StartUp              operator          converge
//	ShutDown             cmd               operator
//
//	Enqueue              all owners        operator (spawns the queue), queue
//	DropTasks            converge          queue
//	ExecuteTask          queue             owner
//	TaskDone             owner             queue
//	SetAside             run               queue
//
//	ListHooks            server            module, global-hooks
//	HookList             module, global    server
//	DumpSnapshots        server            monitors
//	SnapshotDump         monitors          server
//	ListMonitored        server            healer
//	Monitored            healer            server
//
//	GetValues            discovery, server module, global-hooks
//	Values               module, global    discovery, server
//	ApplyHookResult      run               module, global-hooks
//	RememberValues       converge          module, global-hooks
//
//	BindingSynchronized  run               module, global-hooks
//	BindingDeferred      run               module, global-hooks
//	AwaitSynchronized    run               module, global-hooks
//	EnableModule         converge          module
//	SuspendModule        converge          module
//	ResumeModule         converge          module
//	SetMaintenance       converge          module
//	GetDrift             server            module
//	Drift                module            server
//	ModuleDeleted        module            converge
//	RetryNow             converge          module, global-hooks, converge
//
//	GetSnapshots         run               monitors
//	Snapshots            monitors          run
//	UnlockBinding        run               monitors
//	SynchronizeLater     run               monitors
//	AwaitSnapshots       run, queue        monitors
//	SnapshotsComplete    monitors          queue, module, global-hooks
//	ObjectsPatched       run               monitors
//	ObjectsWritten       run               monitors
//	HookBegan            run               monitors
//	HookEnded            run               monitors
//	Unwatch              module            monitors
//	ObjectChanged        kube              monitors
//	WatchSynced          kube              monitors
//
//	StartSchedules       owners            schedule
//	StopSchedules        module            schedule
//	ScheduleFired        cron              schedule
//	Converged            converge          schedule
//
//	ConfigMapSeen        kube              config
//	SaveConfig           owners            config
//	ConfigSaved          config            owners
//	ConfigChanged        config            converge
//	SetConfig            config            module, global-hooks
//	ConfigFlagsSaved     config            converge
//
//
//	ReloadModules        global, module    converge
//	SetDynamicFlags      global-hooks      converge, config
//	ConvergeFinished     global-hooks      converge
package messages
