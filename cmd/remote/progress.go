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

// How often progress looks: at an operator of this machine, and through an API server.
const (
	progressPause    = 250 * time.Millisecond
	progressFarPause = time.Second
)

// logChunk bounds how much of a log is shown at once, in bytes.
const logChunk = 1 << 20

// Progress shows the reload of all modules that is in progress.
func Progress(c *cli.Config) *cobra.Command {
	a, log := &asking{config: c}, ""
	cmd := &cobra.Command{
		Use: "progress", Short: "Show how far the reload of all modules is, until it is over",
		Long: `Shows how many modules are ready, what runs now and since when: on a terminal in one line, which
is rewritten, elsewhere in a line whenever a module is done or fails. It ends when all modules have
converged; an operator that does not answer yet is waited for.`,
		Example: "  addon-operator progress\n  addon-operator progress --log operator.log",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.progress(cmd.Context(), cmd.OutOrStdout(), log)
		},
	}
	cmd.Flags().StringVar(&log, "log", "", "show this file above the line as it grows, and go on until Ctrl-C")
	return cmd
}

// progress shows it on a terminal or elsewhere. With a log it goes on until ctx ends.
func (a *asking) progress(ctx context.Context, out io.Writer, log string) error {
	var file *os.File
	if log != "" {
		var err error
		if file, err = os.Open(log); err != nil {
			return err
		}
		defer file.Close()
	}
	line := cli.NewStatusLine(out)
	if line != nil {
		defer line.Set("")
		out = line
	}
	pause := progressPause
	if asksCluster(a.config) {
		pause = progressFarPause
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	lines, said := &wholeLines{out: out}, ""
	for {
		if file != nil {
			if _, err := io.CopyN(lines, file, logChunk); err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("show %s: %w", log, err)
			}
		}
		p, err := a.askProgress(ctx)
		switch {
		case err != nil && file == nil && !errors.As(err, new(errUnreachable)) && ctx.Err() == nil:
			return err
		case err == nil && p.Converged && file == nil:
			if line != nil {
				line.Set("")
			}
			_, err := fmt.Fprintf(out, "converged: %d modules\n", p.Total)
			return err
		case line != nil && err != nil:
			line.Set("")
		case line != nil:
			line.Set(p.String())
		case err == nil && file == nil:
			if state := fmt.Sprint(p.Done, p.Total, p.Failing, p.Waits); state != said {
				said = state
				if _, err := fmt.Fprintln(printable{Writer: out}, p); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (a *asking) askProgress(ctx context.Context) (p server.Progress, _ error) {
	body, err := a.page(ctx, "/converge/progress", nil)
	if err == nil {
		err = decoded(body, &p)
	}
	return p, err
}

// wholeLines writes only whole lines, so that something can be shown below them. The end of a line comes later.
type wholeLines struct {
	out  io.Writer
	rest []byte
}

// Write implements io.Writer.
func (w *wholeLines) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
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
