package messages

import "addon-operator/hooks"

// StartSchedules makes the schedules of hooks tick.
type StartSchedules struct {
	Owner string
	Hooks []hooks.Hook
}

// StopSchedules ends the schedules of an owner.
type StopSchedules struct{ Owner string }

// ScheduleFired is one tick of a crontab.
type ScheduleFired struct{ Crontab string }
