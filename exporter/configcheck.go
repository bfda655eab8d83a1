// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"fmt"
	"io"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/probes/plan"
)

// ConfigCheck has the configuration files checked, and nothing served.
type ConfigCheck struct {
	On bool
}

// Define adds the flag.
func (c *ConfigCheck) Define(f *command.Flags) {
	f.Switch("config.check", "Check the configuration files and exit.", &c.On)
}

// checkFiles is --config.check.
func (e *Exporter) checkFiles(c *command.Call) int {
	if err := e.checkedFiles(c.Stdout); err != nil {
		for _, e := range config.Errors(c.Explain(err)) { // each, and not the first few
			c.Complain(e)
		}
		return command.Usage
	}
	return command.OK
}

func (e *Exporter) checkedFiles(w io.Writer) error {
	c, err := e.Site.Config.Read()
	var errs []error
	if err != nil {
		errs = config.Errors(err)
	}
	errs = append(errs, c.Problems...) // the service would leave profiles out and run
	tell := func(file string, err error) {
		if err != nil {
			errs = append(errs, config.Errors(err)...)
		} else if file != "" {
			fmt.Fprintf(w, "%s: ok\n", file)
		}
	}
	if len(errs) == 0 && c.File == "" { // no error for the service either
		fmt.Fprintln(w, c.Origin())
	} else if len(errs) == 0 {
		tell(c.File, nil)
	}
	if env := c.ByHand.EnvFile; env != "" {
		_, err := plan.ReadEnvironment(env)
		tell(env, err)
	}
	if web := e.Web.ConfigFile; web != "" {
		err := validWeb(web)
		if err != nil {
			err = fmt.Errorf("%s: %w", web, err)
		}
		tell(web, err)
	}
	if ping := c.RDMAPing; ping != nil && e.Pinging == nil {
		tell("", errNoPing)
	} else if ping != nil {
		_, err := askerOf(ping, e.Web.ConfigFile)
		tell(ping.ClientFile, err)
	}
	return errors.Join(errs...)
}
