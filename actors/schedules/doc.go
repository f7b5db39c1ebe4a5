// Package schedules is the actor schedule: it makes tasks of the crontabs of hooks (C13), from the end of the first converge
// on (C14).
package schedules
