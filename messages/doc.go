// Package messages is the vocabulary of the actors: one file for each conversation.
//
// Commands are imperative and have one receiver (RunHook, SaveConfig). Events are past
// and state a fact (ObjectChanged, TaskDone). Messages are values and are never written
// to once sent; they carry no context, func, PID or mutex. Messages that only actors of
// package actors exchange are declared there, next to their handlers: in the second part of
// the table. What belongs to runs, such as their questions, is in package actors/work: in the third
// part. A test compares the table with the types, with what actors handle and with their answers.
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
//
//	ReloadModules        global, module    converge
//	SetDynamicFlags      global-hooks      converge, config
//	ConvergeFinished     global-hooks      converge
//	StepEnded            owners            converge
//	ListConverges        server            converge
//	Converges            converge          server
//
//	of package actors    sender            receiver
//
//	areYouReady          cmd               operator
//	useQueues            module            operator
//	queueEmpty           queue             operator
//	asideDue             monitors          operator
//	takeOver             cmd               operator
//	endQueue             operator          queue
//
//	secretSeen           kube              config
//	clusterWentBack      kube              config
//	addSections          operator          config
//	getConfig            cmd               config
//	currentConfig        config            cmd
//	getKnownConfig       server            config
//	knownConfig          config            server
//	scriptsAnswered      converge          config
//	removeConfirmation   converge          config
//	compareAgain         timer             config
//	keepAgain            timer             config
//	lead                 operator          config, monitors
//
//	confirmPurge         config            converge
//	sectionChanged       module            converge
//	askAgain             timer             converge
//	delayedReload        timer             converge
//	postponedDue         timer             converge
//	remindHeld           timer             converge
//
//	adoptModule          operator          module
//	updateModule         operator          module
//	updateGlobal         operator          global-hooks
//	forgetModule         converge          module
//	retireModule         converge          module
//	scriptAgreed         converge          module
//	objectsGone          healer            module
//	fought               healer            module
//	objectHealth         watches           healer
//	healthDue            healer            healer
//	healthChanged        healer            module
//	unreadDue            timer             module
//	driftDue             timer             module
//
//	warmUp               standby           monitors
//	dropWarm             converge          monitors
//	exchangeWatches      module, global    monitors
//	resyncAll            config            monitors
//	watchOverflowed      kube              monitors
//	lookAgain            timer             monitors
//	resyncDue            timer             monitors
//	slowedDue            timer             monitors
//	watchAgain           timer             monitors
//
//	objectGone           kube              healer
//	releaseChanged       kube              healer
//	runBegan             module            healer
//	runEnded             module            healer
//	moduleGone           module            healer
//	healDue              timer             healer
//	fightOver            timer             healer
//
//	entriesDue           timer             schedule
//
//	modulesSeen          kube              module-objects
//	objectsDue           timer             module-objects
//	restDue              itself            module-objects
//	lookAtObjects        timer             module-objects
//	suspensionChanged    module-objects    converge
//
//	flagsMoved           config            standby
//	getWarm              cmd               standby
//	warmth               standby           cmd
//
//	of package work      sender            receiver
//
//	SpawnModules         discovery         operator
//	ModulesSpawned       operator, config  discovery
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
//	ReportHealth         run               healer
//	HealthReported       healer            run
//	GetReleased          run               healer
//	Released             healer            run
package messages
