package eligibility

import (
	resourceapi "k8s.io/api/resource/v1"
)

// untolerated returns the first taint that keeps a request from a device, nil if
// there is none (KEP-5055). Effects other than NoSchedule and NoExecute are ignored.
func untolerated(f Features, taints []resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration) *resourceapi.DeviceTaint {
	if !f.DeviceTaints {
		return nil
	}
	for i := range taints {
		taint := &taints[i]
		blocks := taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
		if blocks && !tolerated(taint, tolerations) {
			return taint
		}
	}
	return nil
}

func tolerated(taint *resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration) bool {
	for i := range tolerations {
		if tolerates(&tolerations[i], taint) {
			return true
		}
	}
	return false
}

// tolerates applies the API rule: an empty effect or key of the toleration means any.
func tolerates(t *resourceapi.DeviceToleration, taint *resourceapi.DeviceTaint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case resourceapi.DeviceTolerationOpExists:
		return true
	case resourceapi.DeviceTolerationOpEqual, "":
		return t.Value == taint.Value
	}
	return false
}

func taintText(t *resourceapi.DeviceTaint) string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	return text + ":" + string(t.Effect)
}

// Tolerates reports whether taints keep no request of the filter from a device.
func (f *Filter) Tolerates(taints []resourceapi.DeviceTaint) bool {
	return untolerated(f.features, taints, f.tolerations) == nil
}
