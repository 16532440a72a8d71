// A manifest is bundled as its text.
declare module "*.yaml" {
  const text: string;
  export default text;
}
