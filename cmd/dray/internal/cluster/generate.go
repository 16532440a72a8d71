package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/storage/names"
)

// suffixLength is how many characters an API server adds to generateName.
const suffixLength = 5

// generate makes the claim that the resource claim controller would make.
func generate(template *resourceapi.ResourceClaimTemplate, pod *corev1.Pod, podClaimName string) *resourceapi.ResourceClaim {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: generatedName(pod, podClaimName)}
	annotations := maps.Clone(template.Spec.Annotations)
	if annotations == nil {
		annotations = make(map[string]string)
	}
	annotations[resourceapi.PodResourceClaimAnnotation] = podClaimName
	owner := metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	owner.UID = podUID(pod)
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    generateName(pod, podClaimName),
			Name:            key.Name,
			Namespace:       key.Namespace,
			UID:             madeUpUID("ResourceClaim", key),
			Labels:          maps.Clone(template.Spec.Labels),
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
}

func generateName(pod *corev1.Pod, podClaimName string) string {
	return pod.Name + "-" + podClaimName + "-"
}

// generatedName has a suffix as an API server would draw it, but the same each time.
func generatedName(pod *corev1.Pod, podClaimName string) string {
	base := generateName(pod, podClaimName)
	sum := sha256.Sum256([]byte(pod.Namespace + "/" + base))
	suffix := rand.SafeEncodeString(hex.EncodeToString(sum[:]))[:suffixLength]
	return base[:min(len(base), names.MaxGeneratedNameLength)] + suffix
}

func podUID(pod *corev1.Pod) types.UID {
	if pod.UID != "" {
		return pod.UID
	}
	return madeUpUID("Pod", keyOf(pod))
}
