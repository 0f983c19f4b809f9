/** 28130304 → 28.1 MB */
export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  let value = bytes / 1000;
  for (const unit of ["KB", "MB"]) {
    if (value < 999.5) return `${Number(value.toPrecision(3))} ${unit}`;
    value /= 1000;
  }
  return `${Number(value.toPrecision(3))} GB`;
}
