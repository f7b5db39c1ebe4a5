package operator

import (
	"context"
	"time"

	"addon-operator/actors"
	"addon-operator/cmd/cli"
	"addon-operator/server"
)

// progressEvery is how often the progress on a terminal is computed again.
const progressEvery = 250 * time.Millisecond

// onTerminal makes the host show the progress below its log, on a terminal whose log is for people.
// It replaces Log and Exit: log lines must go above the line, and a crash must not leave it behind.
// It returns nil elsewhere, and changes nothing then.
func (h *Host) onTerminal(c *cli.Config) *cli.StatusLine {
	line := cli.NewStatusLine(h.Log)
	if line == nil || c.LogType == "json" {
		return nil
	}
	exit := h.Exit
	h.Log, h.Exit = line, func(code int) {
		line.Set("")
		exit(code)
	}
	return line
}

// beginProgress shows the progress until ctx ends, or the returned function is called, which waits
// until the line is gone. Without a line it does nothing.
func beginProgress(ctx context.Context, line *cli.StatusLine, operator *actors.Operator) (end func()) {
	if line == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		showProgress(ctx, line, operator)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// showProgress shows how far the converge is, until ctx ends.
func showProgress(ctx context.Context, line *cli.StatusLine, operator *actors.Operator) {
	defer line.Set("")
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c := operator.Converge(); server.Converged(c) {
			line.Set("")
		} else {
			line.Set(operator.Hide(server.ProgressOf(operator.Inspector().Statuses(), c, time.Now()).String()))
		}
	}
}
