// Package messages is the vocabulary of the actors: one file for each conversation.
//
// Commands are imperative and have one receiver (RunHook, SaveConfig). Events are past
// and state a fact (ModuleDeleted, TaskDone). Messages are values and are never written
// to once sent; they carry no context, func, PID or mutex. What belongs to runs, or carries types of modules,
// releases and views, is in package actors: in the third part of the table. What an actor receives only from its
// own timers and watches, and the question of Operator at the start, are declared next to their
// handlers: in the second part. TestLifecycle/messages has the order in which they are sent.
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
//	SetModule            converge          module
//	ModuleDeleted        module            converge
//	RetryNow             module-objects, scenario module, global-hooks, converge
//	SuspensionChanged    module-objects    converge
//
//	SynchronizationEnded run, owners       monitors
//	GetSnapshots         run               monitors
//	Snapshots            monitors          run
//	SynchronizeLater     run               monitors
//	Unwatch              owners            monitors
//
//	StartSchedules       owners            schedule
//	StopSchedules        owners            schedule
//	ScheduleFired        scenario          schedule
//	Converged            converge          schedule
//
//	SaveConfig           owners            config
//	ConfigSaved          config            owners
//	ConfigChanged        config            converge
//	SetConfig            config            module, global-hooks
//	CheckConfig          server            config
//	ConfigChecked        config            server
//	ConfirmPurge         config, converge  converge, module
//	RemoveConfirmation   converge          config
//
//	Review               server, scenario  admission, module, global-hooks
//	Reviewed             module, global    server, scenario
//	ServeReviews         run               admission
//	ReviewsServed        admission         run
//	KeepReviews          converge          admission
//
//	RequestReload        owners            converge
//	SetDynamicFlags      global-hooks      converge
//
//	of other packages    sender            receiver
//
//	areYouReady          cmd               operator
//
//	contentSeen          kube              config
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
//	watchAgain           timer             monitors
//
//	healDue              timer             healer
//
//	entriesDue           timer             schedule
//
//	lookDue              timer             admission
//
//	modulesSeen          kube              module-objects
//	objectsDue           timer             module-objects
//
//	of package actors    sender            receiver
//
//	spawnModules         discovery         operator
//	updateModule         operator          module
//	updateGlobal         operator          global-hooks
//	addSections          operator, discovery config
//	sectionsAdded        config, operator  discovery
//	plan.Enabling        converge          config
//
//	getDiscovery         run, server       converge
//	discovery            converge          run, server
//
//	handOver             run, server       module, global-hooks
//	getHooks             run               module
//	handed               module, global    run, server
//
//	releaseApplied       run, module       healer
package messages
