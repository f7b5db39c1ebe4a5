package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/server"
)

// Time between two looks of progress: at an operator on this machine, and through an API server,
// where each look is a connection to a Pod.
const (
	progressPause    = 250 * time.Millisecond
	progressFarPause = time.Second
)

// logChunk bounds how much of a log is read at a time, and how long a line may be, in bytes.
const logChunk = 1 << 20

// Progress is the command progress.
func Progress(c *cli.Config) *cobra.Command {
	a, log := &asking{config: c}, ""
	cmd := &cobra.Command{
		Use: "progress", Short: "Show the progress of the reload of all modules until it ends",
		Long: `Shows how many modules are ready, what runs now and for how long. On a terminal it updates one line;
elsewhere it prints a line whenever a module is done or fails. It ends when all modules have converged.
It also waits for an operator that does not answer yet.`,
		Example: "  addon-operator progress\n  addon-operator progress --log operator.log",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.progress(cmd.Context(), cmd.OutOrStdout(), log)
		},
	}
	cmd.Flags().StringVar(&log, "log", "", "show this file above the line as it grows, and continue until Ctrl-C")
	return cmd
}

// progress shows the progress until all modules have converged; with a log, which is the path of a
// file, until ctx ends, which then is no error.
func (a *asking) progress(ctx context.Context, out io.Writer, log string) error {
	v := progressView{out: out, line: cli.NewStatusLine(out)}
	if v.line != nil {
		defer v.line.Set("")
		// Everything else must go through the line, which writes it above itself.
		v.out = v.line
	}
	if log != "" {
		// From its beginning: what was logged before this command is part of the start.
		file, err := os.Open(log)
		if err != nil {
			return err
		}
		defer file.Close()
		v.log = file
	}
	pause := progressPause
	if asksCluster(a.config) {
		pause = progressFarPause
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if err := v.follow(); err != nil {
			return fmt.Errorf("show %s: %w", log, err)
		}
		p, err := a.askProgress(ctx)
		if over, err := v.show(p, err); over || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			if v.log != nil {
				return nil
			}
			return ctx.Err() // it has not converged
		case <-tick.C:
		}
	}
}

// progressView is what progress writes to, and what it has written.
type progressView struct {
	out  io.Writer
	line *cli.StatusLine // nil without a terminal
	log  io.Reader       // nil: none is shown
	rest wholeLines      // the end of the log that has no line end yet
	said string          // without a terminal: the state that was printed last
}

// follow shows what was added to the log. A file at its end reads as EOF, and can be read again
// when it has grown; a log longer than logChunk is shown in several rounds.
func (v *progressView) follow() error {
	if v.log == nil {
		return nil
	}
	v.rest.out = v.out
	if _, err := io.CopyN(&v.rest, v.log, logChunk); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// show shows an answer of the operator, or that there is none yet. It reports whether the command
// is over, which it never is while a log is shown. An operator that cannot be reached is waited
// for; any other error ends the command, unless a log is shown, which has it.
//
// On a terminal the line is rewritten; elsewhere a line is printed only when modules were done or
// failed, since the seconds in it always change.
func (v *progressView) show(p server.Progress, err error) (over bool, _ error) {
	if err != nil {
		if v.line != nil {
			v.line.Set("")
		}
		if v.log != nil || errors.As(err, new(errUnreachable)) {
			return false, nil
		}
		return false, err
	}
	if v.line != nil {
		v.line.Set(p.String())
	}
	if v.log != nil {
		return false, nil
	}
	text := fmt.Sprintf("converged: %d modules", p.Total)
	if !p.Converged {
		// What counts as a change elsewhere than on a terminal: not the seconds, nor the step.
		state := fmt.Sprint(p.Done, p.Total, p.Failing, p.Waits)
		if text = p.String(); v.line != nil || state == v.said || text == "" {
			return false, nil
		}
		v.said = state
	}
	_, err = fmt.Fprintln(printable{Writer: v.out}, text)
	return p.Converged, err
}

// askProgress gets the progress of the running operator.
func (a *asking) askProgress(ctx context.Context) (p server.Progress, _ error) {
	body, err := a.page(ctx, "/converge/progress", nil)
	if err == nil {
		err = decoded(body, &p)
	}
	return p, err
}

// wholeLines passes on whole lines only, so that the status line can be shown below them. The rest
// is kept until its line ends, or until it is longer than logChunk.
type wholeLines struct {
	out  io.Writer
	rest []byte
}

// Write implements io.Writer. What it keeps counts as written.
func (w *wholeLines) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
	// No line has ended yet; one that is longer than the limit is passed on in parts.
	if end == 0 && len(w.rest) < logChunk {
		return len(text), nil
	}
	if end == 0 {
		end = len(w.rest)
	}
	_, err := w.out.Write(w.rest[:end])
	w.rest = append([]byte(nil), w.rest[end:]...)
	return len(text), err
}
