// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"cmp"
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func judgeInsideLibverbs(n *fabric.Node, v *verdict.Verdicts) {
	devices, applies := JobDevices(n)
	if devices = withVerbs(devices); !applies || len(devices) == 0 {
		return
	}
	switch l := n.Inside.Libverbs; l.State {
	case fabric.OK:
		v.OK(verdict.Subject{})
	case fabric.Absent:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			Evidence: "The dynamic loader finds no libibverbs.so.1.", Consequence: overTCP,
			Remedy: "Install it in the image with the drivers: apt-get install libibverbs1 ibverbs-providers, or dnf install libibverbs.",
		})
	default:
		v.Unknown(verdict.Subject{}, l.Meta().Reason,
			"The folders of the dynamic loader are not known here: neither libc.so.6 nor libibverbs.so.1 is in the usual ones, or LD_LIBRARY_PATH has relative folders.")
	}
}

// providers are the drivers of libibverbs by kernel driver.
var providers = map[string]string{
	"mlx5_core": "mlx5", "mlx4_core": "mlx4", "bnxt_en": "bnxt_re", "bnxt_re": "bnxt_re", "ice": "irdma",
	"irdma": "irdma", "idpf": "irdma", "hns3": "hns", "mana": "mana", "cxgb4": "cxgb4",
	"qede": "qedr", "erdma": "erdma", "ionic": "ionic", "vmxnet3": "vmw_pvrdma",
}

func judgeInsideProvider(n *fabric.Node, v *verdict.Verdicts) {
	devices, applies := JobDevices(n)
	if !applies || n.Inside.Libverbs.State != fabric.OK {
		return
	}
	have, known := n.Inside.Providers.Get()
	for _, h := range withVerbs(devices) {
		library, named := providers[h.Driver.Or("")]
		s := verdict.Subject{Device: h.Name}
		switch {
		case !named:
		case !known:
			v.Unknown(s, n.Inside.Providers.Meta().Reason,
				"The drivers of libibverbs are unknown: "+verdict.ReasonText(n.Inside.Providers.Meta().Reason)+".")
		case slices.Contains(have, library):
			v.OK(s)
		default:
			v.Failed(s, verdict.Verdict{
				What: "libibverbs has no driver for devices of " + h.Driver.Value,
				Evidence: "There is no lib" + library + "-rdmav<N>.so beside " + n.Inside.Libverbs.Value.Path +
					"; drivers found: " + cmp.Or(verdict.Few(have), "none") + ".",
				Consequence: overTCP,
				Remedy:      "Install the drivers in the image: apt-get install ibverbs-providers, or dnf install libibverbs, of the same release as libibverbs.",
			})
		}
	}
}

func judgeInsidePlugin(n *fabric.Node, v *verdict.Verdicts) {
	devices, applies := JobDevices(n)
	if !applies || len(devices) == 0 || len(withVerbs(devices)) > 0 {
		return
	}
	switch list, known := n.Inside.Plugins.Get(); {
	case len(list) > 0:
		v.OK(verdict.Subject{})
	case !known:
		v.Unknown(verdict.Subject{}, n.Inside.Plugins.Meta().Reason, "The folders of the dynamic loader are not known here.")
	default:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			Evidence: "The dynamic loader finds no libnccl-net*.so.", Consequence: overTCP,
			Remedy: "Install aws-ofi-nccl in the image, and add its folder to LD_LIBRARY_PATH or to the loader's cache (ldconfig).",
		})
	}
}
