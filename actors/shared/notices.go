package shared

import (
	"errors"
	"fmt"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
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

// public are the errors that know what everybody may read of them.
type public interface {
	error
	Public() string
}

// ForEverybody is what an error says that may be read by whoever may see the namespace. Only an error that knows what
// that is says anything: the output of hooks, and texts of charts and of the API server, may hold values. It is
// the one place where the text of a failure is made for Events and objects of kind Module (J9, J14).
func ForEverybody(err error) string {
	known, ok := errors.AsType[public](err)
	switch {
	case !ok:
		return "the log and 'addon-operator queue list' have the details"
	case known.Public() == known.Error():
		return known.Error()
	}
	return known.Public() + "; the log and 'addon-operator why' have the details"
}
