package actors

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
)

// A message whose handler panicked is handled once more, or its sender gets an error. Crashes are
// bugs of the operator; they must not lose a user's change.

// handledAgain reports whether the restarted actor handles a message once more, before all
// others: it would not be sent a second time. Half of what it asks for may have been done
// before the crash, or all of it. So their handlers change last what would make them do
// nothing the second time; what they send may come twice.
func handledAgain(message any) bool {
	switch message.(type) {
	case messages.ShutDown, messages.Enqueue, messages.DropTasks, messages.RetryNow, messages.SetAside, messages.SnapshotsComplete:
	case messages.StartUp, messages.ReloadModules, delayedReload, confirmPurge, remindHeld, messages.ConfigChanged, messages.ConfigFlagsSaved,
		messages.SetDynamicFlags, messages.ModuleDeleted, messages.ConvergeFinished, messages.Converged, sectionChanged, askAgain:
	case messages.EnableModule, messages.SuspendModule, messages.ResumeModule, adoptModule, forgetModule, retireModule,
		messages.SetMaintenance, messages.RememberValues, driftDue, scriptAgreed:
	case messages.ConfigMapSeen, secretSeen, addSections, sectionLost, removeConfirmation, keepAgain, scriptsAnswered, clusterWentBack, compareAgain:
	case messages.ObjectChanged, messages.WatchSynced, messages.UnlockBinding, messages.SynchronizationEnded,
		messages.SynchronizeLater, messages.AwaitSnapshots, messages.Unwatch, messages.ObjectsPatched, messages.ObjectsWritten,
		messages.HookBegan, messages.HookEnded, resyncDue, resyncAll, slowedDue, dropWarm,
		watchOverflowed, watchAgain:
	case lead, warmUp, flagsMoved:
	case useQueues, endQueue, queueEmpty, asideDue:
	case messages.StartSchedules, messages.StopSchedules, entriesDue:
	case objectGone, releaseChanged, runBegan, releaseApplied, runEnded, moduleGone, objectsGone, objectsBack, healDue, fightOver, fought:
	default:
		return false
	}
	return true
}

// answerLost notifies the sender that the actor crashed: a queue of its task, an owner
// of what it wanted to save. Without an answer they would wait forever. News of config
// values are made again by who knows the newest, also for the owner that has saved them
// itself: no other actor would notice that it has old ones.
func answerLost(system *actor.ActorSystem, child *actor.PID, message any, sender *actor.PID) {
	switch msg := message.(type) {
	case messages.SetConfig:
		system.Root.Send(system.NewLocalPID(configPath), sectionLost{child.Id})
	case messages.ConfigSaved:
		if msg.Err == nil && !msg.Conflict {
			system.Root.Send(system.NewLocalPID(configPath), sectionLost{child.Id})
		}
	case messages.ExecuteTask:
		if sender != nil {
			system.Root.Send(sender, messages.TaskDone{ID: msg.Task.ID, Lost: true})
		}
	case messages.SaveConfig:
		if sender != nil {
			system.Root.Send(sender, messages.ConfigSaved{Request: msg.Request, Err: errors.New("the config actor crashed")})
		}
	}
}
