{{/*
What the values change in the objects of base/, exclusive/ and monitoring/. Each edit takes
a dictionary of the object and the root context, changes the object in place, and prints
nothing.
*/}}

{{- define "dray.lease" -}}
{{- eq .Values.schedulerName "default-scheduler" | ternary "kube-scheduler" .Values.schedulerName -}}
{{- end -}}

{{/* The objects of a file, edited, as YAML documents. */}}
{{- define "dray.objects" -}}
{{- range $text := .root.Files.Get .file | splitList "\n---\n" }}
{{- $object := fromYaml $text }}
{{- $edited := dict "object" $object "root" $.root }}
{{- include "dray.edit.metadata" $edited }}
{{- if has $object.kind (list "Role" "Deployment" "NetworkPolicy" "PrometheusRule" "ServiceMonitor" "ValidatingAdmissionPolicy") }}
{{- include (printf "dray.edit.%s" $object.kind) $edited }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end -}}

{{/* Roles and their bindings stay where the lease and the certificates are. */}}
{{- define "dray.edit.metadata" -}}
{{- $values := .root.Values -}}
{{- $_ := merge .object.metadata.labels (include "dray.labels" .root | fromYaml) -}}
{{- with $values.annotations -}}
{{- $_ := set $.object.metadata "annotations" (deepCopy .) -}}
{{- end -}}
{{- if and (hasKey .object.metadata "namespace") (not (hasPrefix "Role" .object.kind)) -}}
{{- $_ := set .object.metadata "namespace" .root.Release.Namespace -}}
{{- end -}}
{{- range get .object "subjects" | default list -}}
{{- $_ := set . "namespace" $.root.Release.Namespace -}}
{{- end -}}
{{- end -}}

{{/* What all objects have in common. */}}
{{- define "dray.labels" -}}
app.kubernetes.io/name: dray-scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dray.edit.Role" -}}
{{- $_ := set (index .object.rules 1) "resourceNames" (list (include "dray.lease" .root)) -}}
{{- end -}}

{{- define "dray.edit.Deployment" -}}
{{- $values := .root.Values -}}
{{- $_ := set .object.spec "replicas" $values.replicas -}}
{{- $template := .object.spec.template -}}
{{- $_ := merge $template.metadata.labels $values.podLabels -}}
{{- $checksum := dict "checksum/config" (include "dray.config" .root | sha256sum) -}}
{{- $_ := set $template.metadata "annotations" (merge $checksum $values.podAnnotations) -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" "imagePullSecrets" -}}
{{- with index $values $field -}}
{{- $_ := set $template.spec $field . -}}
{{- end -}}
{{- end -}}
{{- include "dray.edit.container" (dict "container" (index $template.spec.containers 0) "values" $values) -}}
{{- end -}}

{{- define "dray.edit.container" -}}
{{- $image := .values.image -}}
{{- $tag := $image.tag | default (splitList ":" .container.image | last) -}}
{{- $_ := set .container "image" (empty $image.digest | ternary (printf "%s:%s" $image.repository $tag) (printf "%s@%s" $image.repository $image.digest)) -}}
{{- with $image.pullPolicy -}}
{{- $_ := set $.container "imagePullPolicy" . -}}
{{- end -}}
{{- with .values.resources -}}
{{- $_ := set $.container "resources" . -}}
{{- end -}}
{{- $_ := set .container "args" (concat .container.args .values.extraArgs) -}}
{{- end -}}

{{- define "dray.edit.NetworkPolicy" -}}
{{- $values := .root.Values.networkPolicy -}}
{{- with $values.ingressFrom -}}
{{- $_ := set (index $.object.spec.ingress 0) "from" . -}}
{{- end -}}
{{- with $values.egress -}}
{{- $_ := set $.object.spec "egress" . -}}
{{- $_ := set $.object.spec "policyTypes" (list "Ingress" "Egress") -}}
{{- end -}}
{{- end -}}

{{- define "dray.edit.PrometheusRule" -}}
{{- $_ := merge .object.metadata.labels .root.Values.prometheusRule.labels -}}
{{- end -}}

{{- define "dray.edit.ServiceMonitor" -}}
{{- $_ := merge .object.metadata.labels .root.Values.serviceMonitor.labels -}}
{{- end -}}

{{/* Whose devices, and who. A JSON array of strings is a list of CEL, too. */}}
{{- define "dray.edit.ValidatingAdmissionPolicy" -}}
{{- $values := .root.Values.exclusiveDevices -}}
{{- $own := printf "system:serviceaccount:%s:dray-scheduler" .root.Release.Namespace -}}
{{- $lists := dict "drivers" $values.drivers "users" (prepend $values.users $own) -}}
{{- range $variable := .object.spec.variables -}}
{{- with get $lists $variable.name -}}
{{- $_ := set $variable "expression" (toJson .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The scheduler's configuration, as YAML. */}}
{{- define "dray.config" -}}
{{- $config := .Files.Get "base/scheduler-config.yaml" | fromYaml -}}
{{- $profiles := list -}}
{{- range $values := prepend .Values.extraProfiles (pick .Values "schedulerName" "drayArgs" "plugins" "pluginConfig") -}}
{{- $profile := first $config.profiles | deepCopy -}}
{{- include "dray.edit.profile" (dict "profile" $profile "values" $values) -}}
{{- $profiles = append $profiles $profile -}}
{{- end -}}
{{- $_ := set $config "profiles" $profiles -}}
{{- $_ := set $config.leaderElection "resourceName" (include "dray.lease" .) -}}
{{- $_ := mergeOverwrite $config.clientConnection .Values.clientConnection -}}
{{- with .Values.parallelism -}}
{{- $_ := set $config "parallelism" . -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "dray.edit.profile" -}}
{{- $profile := .profile -}}
{{- $_ := set $profile "schedulerName" .values.schedulerName -}}
{{- range $point, $added := get .values "plugins" | default dict -}}
{{- $plugins := get $profile.plugins $point | default dict -}}
{{- range $list, $names := $added -}}
{{- $_ := set $plugins $list (concat (get $plugins $list | default list) $names) -}}
{{- end -}}
{{- $_ := set $profile.plugins $point $plugins -}}
{{- end -}}
{{- $dray := first $profile.pluginConfig -}}
{{- $_ := mergeOverwrite $dray.args (get .values "drayArgs" | default dict | deepCopy) -}}
{{- $_ := set $profile "pluginConfig" (concat $profile.pluginConfig (get .values "pluginConfig" | default list)) -}}
{{- end -}}
