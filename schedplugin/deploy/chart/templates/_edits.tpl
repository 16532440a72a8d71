{{/*
What the values change in the objects of base/. Each edit takes a dictionary of the object
and the root context, changes the object in place, and prints nothing.
*/}}

{{- define "dray.lease" -}}
{{- eq .Values.schedulerName "default-scheduler" | ternary "kube-scheduler" .Values.schedulerName -}}
{{- end -}}

{{/* Roles and their bindings stay where the lease and the certificates are. */}}
{{- define "dray.edit.metadata" -}}
{{- $labels := dict "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := merge .object.metadata.labels $labels -}}
{{- if not (has .object.kind (list "ClusterRole" "ClusterRoleBinding" "Role" "RoleBinding")) -}}
{{- $_ := set .object.metadata "namespace" .root.Release.Namespace -}}
{{- end -}}
{{- range get .object "subjects" | default list -}}
{{- $_ := set . "namespace" $.root.Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "dray.edit.Role" -}}
{{- $_ := set (index .object.rules 1) "resourceNames" (list (include "dray.lease" .root)) -}}
{{- end -}}

{{- define "dray.edit.Deployment" -}}
{{- $values := .root.Values -}}
{{- $_ := set .object.spec "replicas" $values.replicas -}}
{{- $template := .object.spec.template -}}
{{- $_ := set $template.metadata "annotations" (dict "checksum/config" (include "dray.config" .root | sha256sum)) -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "imagePullSecrets" -}}
{{- with index $values $field -}}
{{- $_ := set $template.spec $field . -}}
{{- end -}}
{{- end -}}
{{- include "dray.edit.container" (dict "container" (index $template.spec.containers 0) "values" $values) -}}
{{- end -}}

{{- define "dray.edit.container" -}}
{{- $image := .values.image -}}
{{- $tag := $image.tag | default (splitList ":" .container.image | last) -}}
{{- $_ := set .container "image" (printf "%s:%s" $image.repository $tag) -}}
{{- with $image.pullPolicy -}}
{{- $_ := set $.container "imagePullPolicy" . -}}
{{- end -}}
{{- with .values.resources -}}
{{- $_ := set $.container "resources" . -}}
{{- end -}}
{{- $_ := set .container "args" (concat .container.args .values.extraArgs) -}}
{{- end -}}

{{/* The scheduler's configuration, as YAML. */}}
{{- define "dray.config" -}}
{{- $config := .Files.Get "base/scheduler-config.yaml" | fromYaml -}}
{{- $profile := first $config.profiles -}}
{{- $_ := set $profile "schedulerName" .Values.schedulerName -}}
{{- $_ := set $config.leaderElection "resourceName" (include "dray.lease" .) -}}
{{- with .Values.drayArgs -}}
{{- $_ := set $profile "pluginConfig" (list (dict "name" "Dray" "args" .)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
