package shared

import (
	"errors"
	"fmt"

	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Notify shows a notice, if there are Events. Secrets are hidden in it here, so that no caller can
// forget that.
func (p *Program) Notify(n kube.Notice) {
	if p.Notices != nil {
		n.Message = hooks.Printable(p.Secrets.Hide(n.Message))
		p.Notices.Record(n)
	}
}

// ConfirmCommand is the command by which a person allows deletions that are held back (P1).
func (p *Program) ConfirmCommand(value string) string {
	return fmt.Sprintf("kubectl annotate --overwrite configmap -n %s %s %s=%s",
		p.Namespace, p.ConfigMapName, kube.ConfirmPurgeAnnotation, value)
}

// A task that fails noticeAfter times, half a minute after it began, does not recover by
// itself. From then on it is reported again every noticeAgain attempts, ten minutes.
const (
	noticeAfter = 4
	noticeAgain = 20
)

// NoticeFailure reports a task that keeps failing.
func (p *Program) NoticeFailure(t messages.Task, a supervisor.Attempt) {
	if a.Final || a.Number < noticeAfter || (a.Number-noticeAfter)%noticeAgain != 0 {
		return
	}
	p.Notify(kube.Notice{Warning: true, Reason: reasonOf(t, "Failing"), Message: fmt.Sprintf("%s keeps failing and is retried: %s", t, ForEverybody(a.Err))})
}

// NoticeEnd reports the success of a task whose failure was reported.
func (p *Program) NoticeEnd(t messages.Task, failed view.FailingTask, outcome supervisor.Outcome) {
	if outcome == supervisor.Done && failed.Attempts >= noticeAfter {
		p.Notify(kube.Notice{Reason: reasonOf(t, "Recovered"), Message: fmt.Sprintf("%s has succeeded after %d failed attempts", t, failed.Attempts)})
	}
}

// reasonOf is the word for what happened to a task.
func reasonOf(t messages.Task, what string) string {
	switch t.Work.(type) {
	case messages.RunModule:
		return "Module" + what
	case messages.DeleteModule:
		return "ModuleDeletion" + what
	case messages.RunHook, messages.SynchronizeHook:
		return "Hook" + what
	}
	return "Reload" + what
}

// ForEverybody is what an error says that may be read by whoever may see the namespace:
// what hooks print stays in the log, because it may hold secrets.
func ForEverybody(err error) string {
	var exit *hooks.ExitError
	var timeout *hooks.TimeoutError
	var release *helm.Error
	var invalid *values.ValidationError
	const more = "; the log and 'addon-operator why' have the details"
	switch {
	case errors.As(err, &exit):
		return fmt.Sprintf("hook %s failed%s", exit.Hook, more)
	case errors.As(err, &timeout):
		return fmt.Sprintf("hook %s took longer than %s (%s)%s", timeout.Hook, timeout.Limit, timeout.Source, more)
	case errors.As(err, &release):
		return release.Error()
	case errors.As(err, &invalid):
		return invalid.Error()
	}
	if crds, ok := errors.AsType[*work.CRDError](err); ok {
		return crds.Error()
	}
	return "the log and 'addon-operator queue list' have the details"
}
