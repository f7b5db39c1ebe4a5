package remote

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"addon-operator/cmd/cli"
)

// pathFormat is how the format of kubectl begins that a template follows.
const pathFormat = "jsonpath="

// printPath prints what a template selects from an answer, with the printer of kubectl, so that
// templates work alike. Missing keys print nothing, because an answer leaves out what is empty. An
// answer that is a list is found under items.
func printPath(w io.Writer, template string, body []byte) error {
	printer, err := printers.NewJSONPathPrinter(template)
	if err != nil {
		return cli.Usagef("output: the template %q cannot be parsed: %w", template, err)
	}
	printer.AllowMissingKeys(true)
	var found any
	if err := utiljson.Unmarshal(body, &found); err != nil { // whole numbers stay whole
		return fmt.Errorf("the operator's answer: %w", err)
	}
	object, ok := found.(map[string]any)
	if !ok { // the library prints objects only
		object = map[string]any{"items": found}
	}
	var out strings.Builder
	// A template that fits no answer, such as an index into an object, fails here only.
	if err := printer.PrintObj(&unstructured.Unstructured{Object: object}, &out); err != nil {
		return err
	}
	return printText(w, &cli.Config{}, []byte(out.String()+"\n"))
}
