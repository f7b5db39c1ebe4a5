// Package messages is the vocabulary of the actors: one file for each conversation.
//
// Commands are imperative and have one receiver (RunHook, SaveConfig). Events are past
// and state a fact (ModuleDeleted, TaskDone). Messages are values and are never written
// to once sent; they carry no context, func, PID or mutex. What belongs to runs, or carries types of modules,
// releases and views, is in package actors/work: in the third part of the table. What an actor receives only from its
// own timers and watches, and the question of Operator at the start, are declared next to their
// handlers: in the second part. Tests compare the table with the types, with what actors send, handle and answer.
//
// The package also contains the work of tasks (task.go: the types of Work) and the parts of messages. They may
// describe and count themselves for people; other behaviour is not allowed. Types that are shown to people, but not
// sent to actors, are in package view.
//
//	message              sender            receiver
//
//	ShutDown             cmd               operator
//
//	Enqueue              who makes tasks   queue, operator
//	ExecuteTask          queue, run        owner
//	TaskDone             owner             queue, run
//	TaskFailed           owner             queue
//	EndAttempts          queue, converge   owner
//
//	ApplyHookResult      run               module, global-hooks
//
//	BindingSettled       run               module, global-hooks
//	AwaitSynchronized    run               module, global-hooks
//	EnableModule         converge          module
//	SetModule            converge          module
//	ModuleDeleted        module            converge
//	RetryNow             module-objects, scenario module, global-hooks, converge
//	ForgetModule         converge          module
//	SectionChanged       module            converge
//	SuspensionChanged    module-objects    converge
//
//	SynchronizationEnded run, owners       monitors
//	GetSnapshots         run               monitors
//	Snapshots            monitors          run
//	SynchronizeLater     run               monitors
//	Unwatch              module            monitors
//
//	StartSchedules       owners            schedule
//	StopSchedules        module            schedule
//	ScheduleFired        scenario          schedule
//	Converged            converge          schedule
//
//	SaveConfig           owners            config
//	ConfigSaved          config            owners
//	ConfigChanged        config            converge
//	SetConfig            config            module, global-hooks
//	ConfigFlagsSaved     config            converge
//	CheckConfig          server            config
//	ConfigChecked        config            server
//	ScriptsAnswered      converge          config
//	ConfirmPurge         config, converge  converge, module
//	RemoveConfirmation   converge          config
//
//	RequestReload        global, module, config converge
//	SetDynamicFlags      global-hooks      converge, config
//
//	of other packages    sender            receiver
//
//	areYouReady          cmd               operator
//
//	configMapSeen        kube              config
//	secretSeen           kube              config
//	keepAgain            timer             config
//
//	diskChanged          disk              converge
//	delayedReload        timer             converge
//
//	objectsSeen          helm              healer
//	driftDue             timer             module
//	leaveDue             timer             module
//
//	objectChanged        kube              monitors
//	watchSynced          kube              monitors
//	watchOverflowed      kube              monitors
//	lookAgain            timer             monitors
//	watchAgain           timer             monitors
//
//	healDue              timer             healer
//
//	entriesDue           timer             schedule
//
//	modulesSeen          kube              module-objects
//	objectsDue           timer             module-objects
//	lookAtObjects        timer             module-objects
//
//	of package work      sender            receiver
//
//	SpawnModules         discovery         operator
//	AdoptModule          operator          module
//	UpdateModule         operator          module
//	UpdateGlobal         operator          global-hooks
//	AddSections          operator          config
//	SectionsAdded        config, operator  discovery
//
//	OfferSections        discovery         config
//	SectionsOffered      config            discovery
//	GetDiscovery         run, server       converge
//	Discovery            converge          run, server
//	MayPurge             run               converge
//	Purgeable            converge          run
//
//	HandOver             run, server       module, global-hooks
//	GetHooks             run               module
//	Handed               module, global    run, server
//	AwaitQuiet           run               module
//	ModuleQuiet          module            run
//
//	ReleaseApplied       run, module       healer
package messages
