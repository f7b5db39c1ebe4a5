package remote

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"addon-operator/actors/plan"
	"addon-operator/hooks"
)

// foresee prints which objects the operator would delete or replace after an edit, and has a person confirm that.
// confirm is the annotation that allows an upgrade which would be held back otherwise; one edit can allow one.
func (v *valueEdit) foresee(cmd *cobra.Command, next map[string]string) (confirm, note string, err error) {
	if v.away != "" { // forced
		return "", "", nil
	}
	var foreseen plan.Plan
	answer, _, err := (&planning{config: v.config, output: "json"}).askOperator(cmd, "", plan.Request{Proposed: next})
	if err == nil {
		err = json.Unmarshal(answer, &foreseen)
	}
	if err != nil {
		return "", fmt.Sprintf("; it is not known what this deletes: %v", err), nil
	}
	text, deletes, confirm := forecast(foreseen)
	if text = hooks.Printable(text); printers.AllowsColorOutput(cmd.ErrOrStderr()) {
		text = colored(text)
	}
	if _, err := io.WriteString(cmd.ErrOrStderr(), text); err != nil || deletes == 0 || v.dryRun || v.yes {
		return confirm, "", err
	}
	if v.file == "-" || !printers.IsTerminal(cmd.InOrStdin()) {
		return "", "", fmt.Errorf("nothing was written: objects that would be deleted or replaced: %d; --yes allows it", deletes)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Objects that would be deleted or replaced: %d. Continue? [y/N] ", deletes)
	line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is no
	if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
		return "", "", errors.New("nothing was written")
	}
	return confirm, "", nil
}

// forecast is what of a plan deletes or replaces objects, how many, and the annotation that allows it.
func forecast(foreseen plan.Plan) (text string, deletes int, confirm string) {
	for _, m := range foreseen.Modules {
		var shown []plan.Object
		for _, o := range m.Objects {
			if o.Diff = ""; o.Verb == "delete" || o.Note != "" {
				shown = append(shown, o)
			}
			if o.Verb == "delete" || strings.Contains(o.Note, "deleted and created") {
				deletes++
			}
		}
		if m.Objects = shown; len(shown) > 0 || m.Error != "" {
			text += m.Text()
		}
		if m.Confirm != "" && confirm == "" {
			confirm = m.Confirm
		}
	}
	return text, deletes, confirm
}
