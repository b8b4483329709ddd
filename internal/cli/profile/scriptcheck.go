package profile

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
	"seedbed/provision/script/python"
)

func scriptCheck(a *cli.App) *cobra.Command {
	var interpreter string
	c := &cobra.Command{
		Use: "check FILE", Short: "Check a provisioning script, or standard input for -, without running it",
		Long: `Check a provisioning script without running it: that it is Python, that it has a class
VMBuilderScript or a function install, that its steps accept their arguments, and that
its imports from the library exist. Hints point out frequent mistakes. The exit status is
1 if there is an error.

The check needs Python 3 on this machine but no server. Without Python, only the length
and the encoding (UTF-8) are checked. The server checks the same when a script is added;
other errors show when a job runs it.`,
		RunE: a.Do(func(ctx context.Context, args []string) error {
			text, err := a.ReadArg(args[0], seedbed.MaxDocument)
			if err != nil {
				return err
			}
			found, err := python.Check(ctx, interpreter, text)
			if errors.Is(err, python.ErrNoInterpreter) {
				found = append(python.CheckText(text), python.Finding{
					Level: python.Hint, Text: interpreter + " is not installed here: only the text was checked, not the Python in it",
				})
			} else if err != nil {
				return err
			}
			return printScriptFindings(a, args[0], found)
		}),
		ValidArgsFunction: a.Completion(cli.Files),
	}
	c.Flags().StringVar(&interpreter, "python", "python3", "`INTERPRETER` that parses it")
	return c
}

func printScriptFindings(a *cli.App, file string, found []python.Finding) error {
	errs := 0
	rows := make([][]string, len(found))
	for i, f := range found {
		rows[i] = []string{cli.Number(f.Line), f.Level, f.Text}
		if f.Level == python.Error {
			errs++
		}
	}
	err := a.ShowTable(found, []string{"line", "level", "finding"}, rows, file+": no problems found")
	if err == nil && errs > 0 {
		err = fmt.Errorf("%s: %d error(s)", file, errs)
	}
	return err
}
