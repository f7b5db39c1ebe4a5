// Package messages is the vocabulary of the actors: one file for each conversation.
//
// Commands are imperative and have one receiver (RunHook, SaveConfig). Events are past
// and state a fact (ObjectChanged, TaskDone). Messages are values and are never written
// to once sent; they carry no context, func, PID or mutex. What an actor hears only from itself, from
// its timers and watches, or from the root that has spawned it, is declared next to its handler: in the
// second part of the table. What belongs to runs, or carries types of modules and releases, is in package
// actors/work: in the third part. A test compares the table with the types, with what actors handle and
// with their answers.
//
// Also in here: what tasks do (task.go: the types of Work) and what messages consist of. They may
// describe and count themselves for people; other behaviour is not allowed. What people are
// shown but no actor is sent is in package view.
//
//	message              sender            receiver
//
//	StartUp              operator          converge
//	ShutDown             cmd               operator
//
//	Enqueue              who makes tasks   queue; operator, which passes it on to queues but main
//	DropTasks            converge          queue, global-hooks
//	ExecuteTask          queue             owner
//	TaskDone             owner             queue
//	SetAside             run               queue
//	TaskWaits            owner             queue
//	GetTurn              run               queue
//	Turn                 queue             run
//	ReloadHeld           queue             converge
//	LetPass              module            queue
//	AsideDue             monitors          operator
//	UseQueues            module            operator
//	EndQueue             operator          queue
//	QueueEmpty           queue             operator
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
//	DiskChanged          cmd               converge
//	RetireModule         converge          module
//	ForgetModule         converge          module
//	SectionChanged       module            converge
//	ScriptAgreed         converge          module
//	SuspensionChanged    module-objects    converge
//
//	SynchronizationEnded run, owners       monitors
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
//	ExchangeWatches      module, global    monitors
//	ResyncAll            config            monitors
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
//	CheckConfig          server            config
//	ConfigChecked        config            server
//	GetKnownConfig       server            config
//	KnownConfig          config            server
//	ScriptsAnswered      converge          config
//	ConfirmPurge         config            converge
//	RemoveConfirmation   converge          config
//
//	ReloadModules        global, module    converge
//	SetDynamicFlags      global-hooks      converge, config
//	ConvergeFinished     global-hooks      converge
//	StepEnded            owners            converge
//	ListConverges        server            converge
//	Converges            converge          server
//
//	WarmUp               standby           monitors
//	FlagsMoved           config            standby
//	Lead                 operator          monitors
//	DropWarm             converge          monitors
//
//	of other packages    sender            receiver
//
//	areYouReady          cmd               operator
//	takeOver             cmd               operator
//
//	secretSeen           kube              config
//	clusterWentBack      kube              config
//	GetCurrent           cmd               config
//	Current              config            cmd
//	LeadFrom             operator          config
//	compareAgain         timer             config
//	keepAgain            timer             config
//
//	askAgain             timer             converge
//	delayedReload        timer             converge
//	postponedDue         timer             converge
//	remindHeld           timer             converge
//
//	objectHealth         watches           healer
//	healthDue            healer            healer
//	unreadDue            timer             module
//	driftDue             timer             module
//
//	watchOverflowed      kube              monitors
//	lookAgain            timer             monitors
//	resyncDue            timer             monitors
//	slowedDue            timer             monitors
//	watchAgain           timer             monitors
//
//	objectGone           kube              healer
//	releaseChanged       kube              healer
//	healDue              timer             healer
//	fightOver            timer             healer
//
//	entriesDue           timer             schedule
//
//	modulesSeen          kube              module-objects
//	objectsDue           timer             module-objects
//	restDue              itself            module-objects
//	lookAtObjects        timer             module-objects
//
//	getWarm              cmd               standby
//	warmth               standby           cmd
//
//	of package work      sender            receiver
//
//	SpawnModules         discovery         operator
//	ModulesSpawned       operator, config  discovery
//	AdoptModule          operator          module
//	UpdateModule         operator          module
//	UpdateGlobal         operator          global-hooks
//	AddSections          operator          config
//
//	OfferSections        discovery         config
//	SectionsOffered      config            discovery
//	GetDiscovery         run, server       converge
//	Discovery            converge          run, server
//	EndAsks              discovery         converge
//	AsksEnded            converge          discovery
//	EndPurges            discovery         converge
//	PurgesEnded          converge          discovery
//	MayPurge             run               converge
//	Purgeable            converge          run
//
//	HandOver             run, server       module, global-hooks
//	GetHooks             run               module
//	Handed               module, global    run, server
//	CRDsInstalled        run               module
//	StartedUp            run               module
//	AwaitQuiet           run               module
//	ModuleQuiet          module            run
//	ObjectsBack          run               module
//	Waits                run               module
//	AwaitReady           run               module
//	Readiness            module            run
//
//	ReleaseApplied       run               healer
//	RunBegan             module            healer
//	RunEnded             module            healer
//	ModuleGone           module            healer
//	ObjectsGone          healer            module
//	HealthChanged        healer            module
//	Fought               healer            module
//	ReportHealth         run               healer
//	HealthReported       healer            run
//	GetReleased          run               healer
//	Released             healer            run
package messages
